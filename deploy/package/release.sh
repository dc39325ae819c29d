#!/bin/sh
# Makes what a release publishes, in bin/release: see CONTRIBUTING.md. Two runs of one commit give equal bytes.
set -eu
umask 022
cd "$(dirname "$0")/../.."
out=$PWD/bin/release
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
rm -rf "$out"
mkdir -p "$out" "$parts/image/etc" "$parts/image/usr/bin" "$parts/image/usr/lib/systemd/system"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# The go command stamps the version of the checkout into the programs, by which nodes tell later ones from earlier ones.
build() { # system, architecture, program
	CGO_ENABLED=0 GOOS=$1 GOARCH=$2 go build -trimpath -buildvcs=true -ldflags '-s -w' -o "$out/$3-$1-$2" "./cmd/$3"
}
for arch in "$@"; do
	build linux "$arch" pinbox && build linux "$arch" pinbox-node
done
build darwin arm64 pinbox
host=linux-$(go env GOHOSTARCH)
VERSION=$(go version -m "$out/pinbox-$host" | awk '$1 == "mod" {print $3}')
export VERSION

for program in pinbox pinbox-node; do
	usr=$parts/$program/usr
	mkdir -p "$usr/bin" "$usr/share/doc/$program" "$usr/share/bash-completion/completions" "$usr/share/man/man1" \
		"$usr/share/fish/vendor_completions.d" "$usr/share/zsh/site-functions"
	cp LICENSE "$usr/share/doc/$program/copyright"
	cp README.md CHANGELOG.md docs/*.md docs/*.json "$usr/share/doc/$program"
	"$out/$program-$host" man "$usr/share/man/man1"
	gzip -9n "$usr"/share/man/man1/*
	"$out/$program-$host" completion bash >"$usr/share/bash-completion/completions/$program"
	"$out/$program-$host" completion fish >"$usr/share/fish/vendor_completions.d/$program.fish"
	"$out/$program-$host" completion zsh >"$usr/share/zsh/site-functions/_$program"
done
cp -r deploy "$parts/pinbox/usr/share/doc/pinbox/examples"
# The units that `pinbox-node setup` writes into an image with a CRI-O, and a preset that leaves them disabled.
printf '[Service]\nExecStart=/usr/bin/crio\n' >"$parts/image/usr/lib/systemd/system/crio.service"
touch "$parts/image/usr/bin/crio"
"$out/pinbox-node-$host" setup --root "$parts/image" --program /usr/bin/pinbox-node --auto-attach >/dev/null
systemd=$parts/pinbox-node/usr/lib/systemd
mkdir -p "$systemd/system" "$systemd/system-preset"
cp -r "$parts"/image/etc/systemd/system/pinbox-*.service* "$systemd/system"
(cd "$systemd/system" && printf 'disable %s\n' *.service) >"$systemd/system-preset/90-pinbox-node.preset"

for arch in "$@"; do
	for program in pinbox pinbox-node; do
		install -m 755 "$out/$program-linux-$arch" "$parts/$program/usr/bin/$program"
		for kind in deb rpm; do
			GOARCH=$arch ROOT=$parts/$program bin/peers/nfpm package --config "deploy/package/$program.yaml" --packager $kind \
				--target "$out"
		done
	done
done
# The node's program for each architecture, where a build for another one finds it.
nodes=$parts/pinbox-nodes/usr
mkdir -p "$nodes/lib/pinbox" "$nodes/share/doc/pinbox-nodes"
cp LICENSE "$nodes/share/doc/pinbox-nodes/copyright"
for arch in "$@"; do
	install -m 755 "$out/pinbox-node-linux-$arch" "$nodes/lib/pinbox/pinbox-node-$arch"
done
for kind in deb rpm; do
	ROOT=$parts/pinbox-nodes bin/peers/nfpm package --config deploy/package/pinbox-nodes.yaml --packager $kind --target "$out"
done

# What CHANGELOG.md says of this release; before a tag is made, of the one to come.
heading=$(git describe --tags --exact-match --match='v*' 2>/dev/null || echo Unreleased)
awk -v heading="## $heading" '/^## / {inside = $0 == heading; next} inside' CHANGELOG.md >"$out/CHANGELOG.md"
[ -s "$out/CHANGELOG.md" ] || { echo "CHANGELOG.md has no section \"## $heading\"" >&2; exit 1; }
cp deploy/install.sh "$out"
cp -L /etc/ssl/certs/ca-certificates.crt "$out" # for the image of the DaemonSet
cd "$out"
sha256sum CHANGELOG.md ca-certificates.crt install.sh pinbox* >SHA256SUMS
