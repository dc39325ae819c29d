# Tags, stated once: OpenPGP in Go, and no storage driver that needs C headers. Without the paths of this clone and without
# cgo, the tests share what is compiled with the programs, and with other clones.
export GOFLAGS := -buildvcs=false -trimpath -ldflags=-w -tags=containers_image_openpgp,exclude_graphdriver_btrfs
export CGO_ENABLED := 0
# Where Go keeps what it has built and fetched: below bin/, for a user whose home folder
# cannot be written.
usable = $(shell d=$$(go env $1); case $$d in (/*) mkdir -p "$$d" 2>/dev/null && test $2 "$$d" && echo "$$d";; esac)
export GOCACHE := $(or $(call usable,GOCACHE,-w),$(CURDIR)/bin/cache/build)
export GOMODCACHE := $(or $(call usable,GOMODCACHE,-r),$(CURDIR)/bin/cache/modules)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOBUILD := go build -p 2 -ldflags '-s -w -X main.linked=$(VERSION)'
DEBIAN  := btrfs-progs ca-certificates chromium conmon cpio cryptsetup-bin curl dosfstools e2fsprogs exfat-fuse exfatprogs fdisk fusefat gcc gdisk genisoimage jq libblkid-dev libc6-dev mmdebstrap mtools opensc openssl procps runc skopeo softhsm2 squashfs-tools squashfs-tools-ng strace systemd systemd-container tar udev xfsprogs xorriso xz-utils zstd

DEBIAN_BOOT := busybox-static dosfstools grub-common grub-efi-amd64-bin isolinux kmod mtools ovmf qemu-system-x86 seabios syslinux-common

DEBIAN_KUBE := etcd-server prometheus

DEBIAN_DOCS := mkdocs mkdocs-material python3-pymdownx

DEBIAN_LINT := codespell shellcheck

DEBIAN_BENCH := btrfs-progs e2fsprogs erofs-utils isal podman skopeo squashfs-tools xfsprogs zstd

# The architectures that nodes may have: pinset.Architectures.
ARCHITECTURES := amd64 arm64 ppc64le riscv64 s390x

.PHONY: build release release-test docs docs-test node cross demo test crio-test flaky weekly weekly-boot weekly-flaky weekly-fuzz weekly-nodes kube-test simulation fresh-test boot-test live-iso deps docs-deps lint-deps kube-deps boot-deps bench-deps peers kube-peers crio-peers golden page pictures bench bench-attach bench-parts vet measure lint mutate fuzz soak
build:
	$(GOBUILD) -o bin/ ./cmd/pinbox ./cmd/pinbox-node

# What a release publishes, in bin/release: see CONTRIBUTING.md.
release:
	$(MAKE) -C fixtures/peers ../../bin/peers/nfpm
	deploy/package/release.sh $(ARCHITECTURES)

# Another clone, which compiles all of it again, makes the same bytes of the commit.
release-test: release
	rm -rf bin/again && git clone --quiet . bin/again
	GOCACHE=$(CURDIR)/bin/again/bin/cache $(MAKE) -C bin/again release
	diff -r bin/release bin/again/bin/release

# The documents as a book, in bin/docs; its links and anchors lead somewhere.
docs: docs-deps
	mkdocs build --strict --quiet
	go test ./cmd -run 'Book|Links'

# The documents agree with the programs: flags, commands, exit codes, tables, examples.
docs-test:
	go test ./cmd ./cmd/pinbox -run 'Docs|Golden|Help|Man|Script'

# The node's program for another architecture: GOARCH=arm64 make node
node:
	$(GOBUILD) -o bin/pinbox-node-$(shell go env GOARCH) ./cmd/pinbox-node

# Both programs for every architecture, and pinbox for macOS: types of the kernel's structures differ, so
# what compiles for one may not for another. The first time takes a minute for each.
cross: $(ARCHITECTURES:%=cross-%) cross-darwin
# Whoever builds an appliance may sit before a Mac. The tests compile there, too, and need Linux to run.
cross-darwin:
	GOOS=darwin GOARCH=arm64 $(GOBUILD) -o /dev/null ./cmd/pinbox
	GOOS=darwin GOARCH=arm64 go vet ./cmd/pinbox ./builder/...
cross-%:
	GOARCH=$* $(GOBUILD) -o /dev/null ./cmd/pinbox ./cmd/pinbox-node

# The main job on sample images; the result stays in demo/.
demo: build
	rm -rf demo
	bin/pinbox demo -o demo

# As root with Debian's packages nothing is skipped but what needs files of others
# beside this project; another user skips, by name, what mounts.
test: deps docs-deps peers vet
	CGO_ENABLED=1 fixtures/left.sh go test -race -skip 'Memory|ManyFiles|Damaged|Kernel|Tar2sqfs|RandomLayers|Reader|Limit|Levels|InTurn|GrowWith' ./storage/squashfs ./storage/compose ./storage/atomicfile
	$(allroot) fixtures/left.sh go test -p 3 -timeout 30m ./...
# A test that root skips fails.
allroot = $(if $(filter 0,$(shell id -u)),PINBOX_TEST_ALL=1)

# The tests with a real CRI-O again, with the newest one in place of the oldest. In CI: make crio-test NEWEST='-run …'
NEWEST =
crio-test: deps peers crio-peers
	PINBOX_CRIO=crio-1.36 $(allroot) fixtures/left.sh go test -count=1 -p 2 -timeout 30m $(NEWEST) ./cmd/pinbox-node ./fixtures/stores

# The tests of PKG TIMES times, in a random order, on a machine that is busy: make flaky PKG=./fixtures/stores
PKG   = ./...
TIMES = 1
flaky: deps docs-deps peers
	$(allroot) fixtures/flaky.sh $(TIMES) $(PKG)

# An appliance of each mode boots in a virtual machine, and gets a later release.
boot-test: deps boot-deps peers bin/peers/live.iso
	go test $(GOFLAGS),boot -timeout 80m -parallel 2 -v ./fixtures/live

# What takes longer than a commit can wait for; each part can run alone. All of it takes a day on two cores.
weekly: weekly-boot weekly-flaky weekly-fuzz weekly-nodes soak mutate release-test
weekly-boot: deps boot-deps peers bin/peers/live.iso
	go test $(GOFLAGS),boot,weekly -timeout 120m -parallel 2 -v ./fixtures/live
weekly-flaky:
	$(MAKE) flaky TIMES=5
# A target that tries fewer inputs in a second finds nothing.
weekly-fuzz:
	fixtures/fuzz.sh 5m 500
weekly-nodes:
	PINBOX_NODES=1000 $(MAKE) simulation

# Nodes with a real kubelet, and with an API server and etcd. The first time builds both: about 7 minutes.
kube-test: deps kube-deps peers kube-peers
	go test $(GOFLAGS),kube -timeout 20m -v ./fixtures/kube

# Many nodes that play their passes, at one real API server: PINBOX_NODES=1000 make simulation. With 100, 4 minutes.
simulation: deps kube-deps kube-peers
	go test $(GOFLAGS),kube,simulation -count=1 -timeout 30m -run TestSimulation -v ./fixtures/kube

# The commands of README.md and docs/start.md in a bare Debian with nothing but make, git and Go, and the packages of a
# release: about 4 minutes.
fresh-test: deps bin/peers/debian.tar
	$(MAKE) release ARCHITECTURES=$(shell go env GOHOSTARCH)
	go test $(GOFLAGS),fresh -timeout 20m -v ./fixtures/fresh

bin/peers/debian.tar: | deps
	mkdir -p bin/peers
	mmdebstrap --quiet --format=tar --variant=minbase --include=git,make bookworm $@.part
	mv $@.part $@

# For docs/tutorial.md: the next, and what it takes. The first time builds CRI-O and Ignition.
live-iso: deps boot-deps
	$(MAKE) -C fixtures/peers live
	$(MAKE) bin/peers/live.iso

# A live ISO of Debian packages with CRI-O, made as CoreOS makes its own.
bin/peers/live.iso: $(filter-out %_test.go,$(wildcard fixtures/live/*.* fixtures/live/init fixtures/live/udhcpc fixtures/live/installer/* fixtures/live/guest/*.go fixtures/pod/*.go))
	go build -o bin/peers/guest ./fixtures/live/guest
	fixtures/live/build.sh $(CURDIR)/$@ $(CURDIR)/bin/peers $(CURDIR)/bin/peers/guest

deps:
	@dpkg -s $(DEBIAN) >/dev/null 2>&1 || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(DEBIAN); }

docs-deps:
	@dpkg -s $(DEBIAN_DOCS) >/dev/null 2>&1 || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(DEBIAN_DOCS); }

bench-deps:
	@dpkg -s $(DEBIAN_BENCH) >/dev/null 2>&1 || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(DEBIAN_BENCH); }

lint-deps:
	@dpkg -s $(DEBIAN_LINT) >/dev/null 2>&1 || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(DEBIAN_LINT); }

kube-deps:
	@dpkg -s $(DEBIAN_KUBE) >/dev/null 2>&1 || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(DEBIAN_KUBE); }

boot-deps:
	@dpkg -s $(DEBIAN_BOOT) >/dev/null 2>&1 || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(DEBIAN_BOOT); }

# Real programs that the tests run against, in the versions that their go.mod files pin, and a bare Debian.
peers: bin/peers/debian.tar
	$(MAKE) -C fixtures/peers

kube-peers:
	$(MAKE) -C fixtures/peers kubernetes

crio-peers:
	$(MAKE) -C fixtures/peers ../../bin/peers/crio-1.36

vet:
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	go vet ./...

# The longest functions and files, and the types with the most methods: signs to look at, not limits.
measure:
	@git ls-files '*.go' | go run fixtures/measure.go

# What .golangci.yml lists, the script that a node boots with, and the spelling of the documents and the help. The first time builds golangci-lint: about 3
# minutes. The words to ignore are a file's suffix, an algorithm and a mistake that the documents show.
lint: lint-deps
	$(MAKE) -C fixtures/peers ../../bin/peers/golangci-lint ../../bin/peers/actionlint
	bin/peers/actionlint
	shellcheck --exclude=SC1091 fixtures/golden/*.sh deploy/*.sh deploy/package/*.sh
	codespell --ignore-words-list bu,flate,platfrom README.md CONTRIBUTING.md docs/*.md docs/*.json deploy fixtures/golden/*.txt
	GOLANGCI_LINT_CACHE=$(CURDIR)/bin/cache/golangci-lint bin/peers/golangci-lint run ./...

# Changes these packages in many small ways, and fails if the tests of one pass for more than a
# tenth of its changes; about two hours. One package: make mutate MUTATED=storage/pinset
MUTATED = storage/pinset storage/cache storage/compose runtime runtime/stores builder/verify
mutate: deps
	mkdir -p bin
	cd fixtures/mutate && GOFLAGS= go build -trimpath -buildvcs=false -o ../../bin/gremlins github.com/go-gremlins/gremlins/cmd/gremlins
	fixtures/mutate/mutate.sh $(CURDIR)/bin/gremlins $(MUTATED)

# Each fuzz target of the project for a while; what one finds is kept in testdata/fuzz of its package.
FUZZTIME = 30s
fuzz:
	fixtures/fuzz.sh $(FUZZTIME)

# 1,000 kills, an hour of sets that change every second, and 200 cycles of attach, rollback and
# detach: about two hours. The figures are what CI does, times these.
KILLS   = 32
CHANGES = 600
CYCLES  = 100
soak: deps peers
	PINBOX_SOAK=$(KILLS) go test -count=1 -v -timeout 4h ./cmd/pinbox ./cmd/pinbox-node ./fixtures/stores ./runtime/node -run 'Test(FaultAtEachOperationOfA|Killed(CommandIsDoneAgain|AtRandomMoments|AtEveryStep|WhileAThinDelta)|NodeDiesInAPull)'
	PINBOX_SOAK=$(CHANGES) go test -count=1 -v -timeout 4h ./cmd/pinbox-node -run TestSetThatKeepsChanging
	PINBOX_SOAK=$(CYCLES) go test -count=1 -v -timeout 4h ./fixtures/stores -run TestCyclesOfReleases

# Writes golden files and the schema anew.
golden:
	go test ./storage/layout ./storage/pinset ./runtime ./runtime/crio ./runtime/provision ./runtime/systemd ./ignition ./builder/spec ./builder/openshift ./builder/mirror ./builder/source ./builder/provenance ./builder/inspect ./runtime/pages ./cmd ./cmd/pinbox -run Golden -update

# The pictures of README.md and the documents, with Graphviz.
pictures: docs/pictures/lines.svg
docs/pictures/%.svg: docs/pictures/%.dot
	dot -Tsvg $< -o $@

# The library of the page of `pinbox inspect --html`, and for the tests of pages the one that checks them and a font, from
# the npm registry.
D3  := 3.1.3
AXE := 4.10.3
OPENSANS := 5.3.0
page:
	cd builder/inspect/page && npm pack --silent d3-hierarchy@$(D3) && tar -xzf d3-hierarchy-$(D3).tgz --strip-components=1 \
		package/LICENSE package/dist/d3-hierarchy.min.js && mv dist/d3-hierarchy.min.js . && rmdir dist && \
		mv LICENSE d3-hierarchy.LICENSE && rm d3-hierarchy-$(D3).tgz
	cd fixtures/browser && npm pack --silent axe-core@$(AXE) && \
		tar -xzf axe-core-$(AXE).tgz --strip-components=1 package/LICENSE package/axe.min.js && \
		mv LICENSE axe.LICENSE && rm axe-core-$(AXE).tgz
	cd fixtures/browser && npm pack --silent @fontsource/open-sans@$(OPENSANS) && \
		tar -xzf fontsource-open-sans-$(OPENSANS).tgz --strip-components=1 package/LICENSE \
		package/files/open-sans-latin-400-normal.woff2 && mv LICENSE open-sans.LICENSE && \
		mv files/open-sans-latin-400-normal.woff2 open-sans.woff2 && rmdir files && rm fontsource-open-sans-$(OPENSANS).tgz

# pinbox beside skopeo and mksquashfs, beside podman, and beside the least that it
# can cost, on a corpus of Debian packages and on one shaped as an OpenShift
# release; how fast a store is read; then the parts. The corpora, 6 GB, are made once. A regression shows in
# less than two minutes too, once its corpora are made: BENCHFLAGS=-quick make bench
bench: deps bench-deps build
	$(if $(findstring -quick,$(BENCHFLAGS)),,$(MAKE) -C fixtures/peers ../../bin/peers/tar-diff)
	$(MAKE) -C fixtures/peers ../../bin/peers/slowdisk
	go run ./fixtures/bench $(BENCHFLAGS)
	$(MAKE) $(if $(findstring -quick,$(BENCHFLAGS)),bench-attach,bench-parts)

# An ISO of a store of 5 GiB beside cp; the lock of a release of 190 components; 1,000 and
# 4,000 images of one OCI layout; and a pass of pinbox-node over 500 images that are all
# there.
bench-parts: bench-attach
	go test ./builder/iso -run '^$$' -bench . -timeout 1h
	go test ./builder -run '^$$' -bench . -benchtime 5x
	go test ./storage/compose -run '^$$' -bench Documents
	go test ./cmd/pinbox-node -run '^$$' -bench . -benchtime 10x

# A node gets the next release, 5 % of it new: a delta or a full store is attached,
# beside pulls from a registry on loopback into a real CRI-O. Then what dm-verity costs:
# the time to read a store through it, divided by the time without; it takes a kernel
# that has dm-verity.
bench-attach: deps peers
	go test ./fixtures/bench -run '^$$' -bench $(if $(findstring -quick,$(BENCHFLAGS)),NextRelease -short,.) -timeout 2h
