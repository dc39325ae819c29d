package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// A live ISO is built, verified, shown, extracted,
// reset; and two builds are equal.
func TestLiveISO(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	base := fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...)
	sets := write(t, "sets.yaml", pins.Sets())
	build := func(t *testing.T) (dir, image string) {
		dir = filepath.Join(t.TempDir(), "out")
		image = filepath.Join(dir, "appliance.iso")
		code, stdout, stderr := pinbox(t.Context(), "build", "--set", sets, "--insecure-registry=127.0.0.1", "--node-binary",
			nodeProgram, "-o", dir, "--iso", base, "--kargs-append", "console=ttyS0")
		if want := image + "   boots with both"; code != fault.OK || !strings.Contains(stdout, want) {
			t.Fatalf("build: got exit code %d, want 0 and %q\n%s%s", code, want, stdout, stderr)
		}
		return dir, image
	}
	dir, image := build(t)
	t.Run("verify", func(t *testing.T) {
		for _, what := range []string{dir, image} {
			code, stdout, stderr := pinbox(t.Context(), "verify", what)
			if code != fault.OK || !strings.Contains(stdout, "is intact") || !strings.Contains(stdout, "5 images") {
				t.Errorf("verify %s: got exit code %d, want 0, \"is intact\" and \"5 images\"\n%s%s", what, code, stdout, stderr)
			}
		}
	})
	t.Run("inspect", func(t *testing.T) { checkInspectedISO(t, dir, image) })
	t.Run("extract", func(t *testing.T) { checkISOExtract(t, dir, image) })
	t.Run("no boot from a network", func(t *testing.T) {
		code, _, stderr := pinbox(t.Context(), "iso", "extract", image, "--pxe", filepath.Join(t.TempDir(), "pxe"))
		if code != fault.Input || !strings.Contains(stderr, "spec.node.store.url") {
			t.Errorf("a store on the ISO: got exit code %d, want 3 and the cure\n%s", code, stderr)
		}
	})
	t.Run("no medium", func(t *testing.T) {
		code, _, stderr := pinbox(t.Context(), "medium", dir, "-o", filepath.Join(t.TempDir(), "medium.iso"))
		if want := "spec.node.store.volumeLabel"; code != fault.Input || !strings.Contains(stderr, want) {
			t.Errorf("a medium that no node looks for: got exit code %d, want 3 and %q\n%s", code, want, stderr)
		}
	})
	t.Run("reset", func(t *testing.T) {
		original := filepath.Join(t.TempDir(), "original.iso")
		if err := restore(t, image, original); err != nil || sum(t, original) != sum(t, base) {
			t.Errorf("got %v, want the base", err)
		}
	})
	t.Run("a second build", func(t *testing.T) {
		if _, second := build(t); sum(t, second) != sum(t, image) {
			t.Error("got another ISO, want the same bytes")
		}
	})
}

// liveISOWithKernel is a live ISO with what boots it from a network.
func liveISOWithKernel(t *testing.T) string {
	return fixtures.LiveISO(t, append(slices.Clone(fixtures.LiveISOs["as CoreOS"]), "-graft-points",
		"images/pxeboot/vmlinuz="+write(t, "vmlinuz", []byte("kernel")),
		"images/pxeboot/initrd.img="+write(t, "initrd.img", []byte("ramdisk")))...)
}

// What boots an ISO from a network is that of the ISO, and the config names the store by its URL. The program is in
// the folder, for the server.
func TestPXE(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	sets := write(t, "sets.yaml", pins.Sets())
	base := liveISOWithKernel(t)
	spec := "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: x}\nspec:\n  sources: [{pinnedImageSets: [" + sets +
		"]}]\n  iso: {base: " + base + "}\n  insecureRegistries: [127.0.0.1]\n" +
		"  node: {store: {url: 'http://boot.lab/x/store.squashfs'}}\n"
	dir, pxe := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "pxe")
	code, stdout, stderr := pinbox(t.Context(), "build", "-c", write(t, "appliance.yaml", []byte(spec)), "--node-binary",
		nodeProgram, "-o", dir)
	if code != fault.OK {
		t.Fatalf("build: got exit code %d, want 0\n%s%s", code, stdout, stderr)
	}
	if sum(t, filepath.Join(dir, "pinbox-node")) != sum(t, nodeProgram) {
		t.Error("got another pinbox-node in the folder, want that of the store")
	}
	if code, stdout, stderr := pinbox(t.Context(), "verify", dir); code != fault.OK {
		t.Errorf("verify: got exit code %d, want 0\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = pinbox(t.Context(), "iso", "extract", filepath.Join(dir, "appliance.iso"), "--pxe", pxe)
	if code != fault.OK || !strings.Contains(stdout, "appliance-vmlinuz") {
		t.Fatalf("extract: got exit code %d, want 0 and the names\n%s%s", code, stdout, stderr)
	}
	for file, inISO := range map[string]string{
		"appliance-vmlinuz": "images/pxeboot/vmlinuz", "appliance-initrd.img": "images/pxeboot/initrd.img",
		"appliance-rootfs.img": "images/pxeboot/rootfs.img", "appliance-ignition.img": "images/ignition.img",
	} {
		want := fixtures.Run(t, "isoinfo", "-R", "-i", filepath.Join(dir, "appliance.iso"), "-x", "/"+inISO)
		if got, err := os.ReadFile(filepath.Join(pxe, file)); err != nil || string(got) != want {
			t.Errorf("%s: got %d bytes, %v, want the %d of the ISO", file, len(got), err, len(want))
		}
	}
	if sum(t, filepath.Join(pxe, "config.ign")) != sum(t, filepath.Join(dir, "config.ign")) {
		t.Error("got another config.ign, want that of the appliance")
	}
	for file, want := range map[string]string{
		"boot.ipxe": "kernel http://boot.lab/x/appliance-vmlinuz initrd=initrd.img initrd=ignition.img ignition.firstboot " +
			"coreos.live.rootfs_url=http://boot.lab/x/appliance-rootfs.img\n",
		"grub.cfg": "linux (http,boot.lab)/x/appliance-vmlinuz ignition.firstboot coreos.live.rootfs_url=" +
			"http://boot.lab/x/appliance-rootfs.img\n",
	} {
		if got, err := os.ReadFile(filepath.Join(pxe, file)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: got %s, %v, want %q", file, got, err, want)
		}
	}
	fixtures.Run(t, "sh", "-c", "cd "+pxe+" && sha256sum --check --strict SHA256SUMS")

	// Arguments that were appended later are judged as those of a build.
	const end = fixtures.LiveKargs + "\n"
	appended := fixtures.LiveKargs + " coreos.inst=yes\n"
	content := strings.ReplaceAll(string(mustRead(t, filepath.Join(dir, "appliance.iso"))),
		end+strings.Repeat("#", len(appended)-len(end)), appended)
	image, out := write(t, "appended.iso", []byte(content)), filepath.Join(t.TempDir(), "pxe")
	code, _, stderr = pinbox(t.Context(), "iso", "extract", image, "--pxe", out)
	if code != fault.Input || !strings.Contains(stderr, "coreos.inst=yes") {
		t.Errorf("another installation: got exit code %d, want 3 and the argument\n%s", code, stderr)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another installation: got %v, want no files", err)
	}
}

// What a stick would boot is said of the base by the build, and of the ISO by verify.
func TestISOWithATreeOfItsPartition(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	dir := filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{
		{"build", "--set", write(t, "sets.yaml", pins.Sets()), "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram,
			"-o", dir, "--iso", fixtures.LiveISO(t, "-rock", "-partition_offset", "16")},
		{"verify", filepath.Join(dir, "appliance.iso")},
	} {
		code, stdout, stderr := pinbox(t.Context(), args...)
		if want := "begins at block 64 has a tree of its own"; code != 0 || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: got exit code %d, want 0 and %q\n%s%s", args[0], code, want, stdout, stderr)
		}
	}
}

// An ISO that has a config is built with --merge only. The folder and the ISO agree on the merged config, and reset
// gives the ISO back.
func TestMergedISO(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	config := write(t, "agent.ign", []byte(
		`{"ignition":{"version":"3.2.0"},"systemd":{"units":[{"name":"agent.service","contents":"[Service]\n"}]}}`))
	base := filepath.Join(t.TempDir(), "agent.iso")
	fixtures.Run(t, fixtures.Peer(t, "agentiso"), fixtures.LiveISO(t, "-rock", "-m", "efiboot.img"), config, base)
	dir := filepath.Join(t.TempDir(), "out")
	image := filepath.Join(dir, "appliance.iso")
	args := []string{
		"build", "--set", write(t, "sets.yaml", pins.Sets()), "--insecure-registry=127.0.0.1", "--node-binary",
		nodeProgram, "-o", dir, "--iso", base,
	}
	code, _, stderr := pinbox(t.Context(), args...)
	if code != fault.Input || !strings.Contains(stderr, "--merge") {
		t.Errorf("without --merge: got exit code %d, want 3 and the cure\n%s", code, stderr)
	}
	if code, _, stderr := pinbox(t.Context(), append(args, "--merge", "--replace-config")...); code != fault.Usage {
		t.Errorf("with both: got exit code %d, want 2\n%s", code, stderr)
	}
	if code, stdout, stderr := pinbox(t.Context(), append(args, "--merge")...); code != fault.OK {
		t.Fatalf("build --merge: got exit code %d, want 0\n%s%s", code, stdout, stderr)
	}
	for _, what := range []string{dir, image} {
		if code, stdout, stderr := pinbox(t.Context(), "verify", what); code != fault.OK {
			t.Errorf("verify %s: got exit code %d, want 0\n%s%s", what, code, stdout, stderr)
		}
	}
	merged, err := os.ReadFile(filepath.Join(dir, "merged.ign"))
	if err != nil {
		t.Fatal(err)
	}
	if _, embedded, _ := pinbox(t.Context(), "iso", "extract", image, "--ignition"); embedded != string(merged) ||
		!strings.Contains(embedded, "agent.service") {
		t.Errorf("got the config\n%s\nin the ISO, want merged.ign:\n%s", embedded, merged)
	}
	original := filepath.Join(t.TempDir(), "original.iso")
	if err := restore(t, image, original); err != nil || sum(t, original) != sum(t, base) {
		t.Errorf("reset: got %v, want the base", err)
	}
}

// checkInspectedISO compares what `inspect` prints of an ISO with the files in the folder of the appliance.
func checkInspectedISO(t *testing.T, dir, image string) {
	t.Helper()
	var result struct{ ISO iso.Info }
	code, stdout, stderr := pinbox(t.Context(), "inspect", image, "--output", "json")
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != fault.OK {
		t.Fatalf("got exit code %d, %v, want 0 and JSON\n%s%s", code, err, stdout, stderr)
	}
	info := result.ISO
	if info.Label != "test" || info.Kargs.Current != "coreos.liveiso=test ignition.firstboot console=ttyS0" ||
		info.Kargs.Default != fixtures.LiveKargs ||
		len(info.Added) != 6 || len(info.Ignition.Members) != 1 ||
		!bytes.Contains(info.Features, []byte("installer-config")) {
		t.Errorf("got %+v, want the label, kernel arguments, files and features of the ISO", info)
	}
	_, stdout, _ = pinbox(t.Context(), "inspect", image)
	for name, label := range map[string]string{
		"store.squashfs": "pinbox/store.squashfs", "store.roothash": "pinbox/store.roothash",
		"pinbox.lock.json": "pinbox/lock.json", "config.ign": "  config.ign",
	} {
		digest := fmt.Sprintf("%x", sum(t, filepath.Join(dir, name)))
		if !regexp.MustCompile(`(?m)^` + label + ` .*sha256:` + digest + `$`).MatchString(stdout) {
			t.Errorf("got no %s with %s:\n%s", label, digest, stdout)
		}
	}
	if !strings.Contains(stdout, `{"installer-config":true}`) ||
		!regexp.MustCompile(`(?m)^architecture +unknown$`).MatchString(stdout) {
		t.Errorf("got no features or no architecture:\n%s", stdout)
	}
}

// checkISOExtract compares what `iso extract` writes with the files in the folder of the appliance.
func checkISOExtract(t *testing.T, dir, image string) {
	t.Helper()
	for flag, file := range map[string]string{
		"--ignition": "config.ign", "--store": "store.squashfs", "--lock": "pinbox.lock.json",
	} {
		want := mustRead(t, filepath.Join(dir, file))
		code, stdout, stderr := pinbox(t.Context(), "iso", "extract", image, flag)
		if code != fault.OK || stdout != string(want) {
			t.Errorf("%s: got exit code %d and %d bytes, want 0 and the %d bytes of %s\n%s", flag, code, len(stdout),
				len(want), file, stderr)
		}
	}
}

// The store on a medium of its own, as a user has it.
func TestMedium(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	sets := write(t, "sets.yaml", pins.Sets())
	config := write(t, "site.yaml", []byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: site}\n"+
		"spec:\n  sources: [{pinnedImageSets: ["+sets+"]}]\n  iso: {base: "+fixtures.LiveISO(
		t)+"}\n  node: {store: {volumeLabel: SHIP_7}}\n"))
	dir, medium := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "medium.iso")
	do := func(code int, want string, args ...string) {
		t.Helper()
		if got, stdout, stderr := pinbox(t.Context(), args...); got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%v: got exit code %d, want %d and %q\n%s%s", args, got, code, want, stdout, stderr)
		}
	}
	do(0, "next: pinbox medium "+dir, "build", "-c", config, "--insecure-registry=127.0.0.1", "--node-binary",
		nodeProgram, "-o", dir+"/")
	do(0, "with no store in it", "verify", filepath.Join(dir, "appliance.iso"))
	do(fault.Usage, "is not a regular file", "medium", dir, "-o", t.TempDir())
	do(fault.Usage, "is in the folder that the medium is made of", "medium", dir, "-o",
		filepath.Join(dir, "appliance.iso"))
	do(fault.Usage, "exists and is not an ISO, so it is not overwritten", "medium", dir, "-o", config)
	partial := filepath.Join(filepath.Dir(medium), ".medium.iso.pinbox-partial")
	if err := os.Symlink(config, partial); err != nil {
		t.Fatal(err)
	}
	do(fault.Usage, partial+" is not a file of this user alone", "medium", dir, "-o", medium)
	if err := os.Remove(partial); err != nil {
		t.Fatal(err)
	}
	do(0, "medium.iso: ", "medium", dir, "-o", medium)
	do(0, "with the label SHIP_7", "medium", dir, "-o", medium) // over the one before
	do(0, "4 files, 5 images in a store of", "verify", medium)
	do(0, "SHIP_7", "inspect", medium)
	do(fault.Usage, "give extract", "iso")
	do(fault.Usage, "unknown command", "iso", "extarct", medium)
	store := filepath.Join(dir, "store.squashfs")
	if err := os.WriteFile(store, append(mustRead(t, store), 0), 0o644); err != nil {
		t.Fatal(err)
	}
	do(fault.Damaged, "store.squashfs has changed", "medium", dir, "-o", medium)
}

// A byte of the base that flips is found too, and a written stick can be verified.
func TestVerifyReadsAllOfAnISO(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	dir := filepath.Join(t.TempDir(), "out")
	do := func(code int, want string, args ...string) {
		t.Helper()
		if got, stdout, stderr := pinbox(t.Context(), args...); got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%v: got exit code %d, want %d and %q\n%s%s", args, got, code, want, stdout, stderr)
		}
	}
	do(0, "", "build", "--set", write(t, "sets.yaml", pins.Sets()), "--insecure-registry=127.0.0.1", "--node-binary",
		nodeProgram, "-o", dir, "--iso", fixtures.LiveISO(t), "--install-device", "/dev/sda")
	image := filepath.Join(dir, "appliance.iso")
	do(0, "installs to  ", "inspect", image)
	device := fixtures.LoopDevice(t, image)
	do(0, "is intact: 6 files", "verify", device)
	content := mustRead(t, image)
	content[bytes.Index(content, []byte("rootfsrootfs"))]++
	if err := os.WriteFile(image, content, 0o644); err != nil {
		t.Fatal(err)
	}
	do(fault.Damaged, "base.iso has changed", "verify", image)
}

// The ISO of another appliance is no part of this one.
func TestVerifyComparesTheISOWithItsFolder(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	base := fixtures.LiveISO(t)
	build := func(more ...string) string {
		out := filepath.Join(t.TempDir(), "out")
		args := append([]string{"build", "--set", write(t, "sets.yaml", pins.Sets()), "--insecure-registry=127.0.0.1", "--node-binary",
			nodeProgram, "-o", out, "--iso", base}, more...)
		if code, _, stderr := pinbox(t.Context(), args...); code != 0 {
			t.Fatal(stderr)
		}
		return out
	}
	live := build()
	fixtures.Run(t, "cp", filepath.Join(build("--install-device", "/dev/sda"), "appliance.iso"), live)
	fixtures.Run(t, "sh", "-c", "cd "+live+" && sha256sum $(cut -c67- SHA256SUMS) >sums && mv sums SHA256SUMS")
	if code, _, stderr := pinbox(t.Context(), "verify", live); code != fault.Damaged ||
		!strings.Contains(stderr, "appliance.iso has another config.ign than the folder") {
		t.Errorf("got exit code %d, want %d and %q\n%s",
			code, fault.Damaged, "appliance.iso has another config.ign than the folder", stderr)
	}
}

// Flags that a script left empty build nothing else in silence.
func TestISOFlagsThatSayNothing(t *testing.T) {
	set := write(t, "set.yaml", fixturesSet)
	for _, flags := range [][]string{
		{"--iso", ""}, {"--iso", "x.iso", "--install-device", ""}, {"--kargs-append", "a"}, {"--replace-config"},
	} {
		code, _, stderr := pinbox(t.Context(), append([]string{"build", "--set", set, "-o", filepath.Join(t.TempDir(), "out"),
			"--node-binary", nodeProgram}, flags...)...)
		if code != fault.Usage && code != fault.Input || !strings.Contains(stderr, "is empty") &&
			!strings.Contains(stderr, "spec.iso.base") {
			t.Errorf("%q: got exit code %d, want %d\n%s", flags, code, fault.Usage, stderr)
		}
	}
}

var fixturesSet = []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: PinnedImageSet\nmetadata:\n" +
	"  name: s\nspec:\n  pinnedImages:\n  - name: 127.0.0.1:1/x@sha256:" + strings.Repeat("0", 64) + "\n")

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(content)
}

// Errors of a base ISO are reported before anything is fetched: the test has no registry.
func TestLiveISOsThatCannotBeUsed(t *testing.T) {
	set := write(t, "set.yaml", fixturesSet)
	base := fixtures.LiveISO(t, fixtures.LiveISOs["Rock Ridge"]...)
	content, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args   []string
		code   int
		output string
	}{
		"no such file": {[]string{"--iso", "/no/such.iso"}, fault.Input, "no such file"},
		"no ISO":       {[]string{"--iso", nodeProgram}, fault.Input, "not an ISO 9660 image"},
		"cut off": {
			[]string{"--iso", write(t, "cut.iso", content[:len(content)/2])}, fault.Input, "the image is incomplete",
		},
		"no Ignition": {
			[]string{"--iso", write(t, "none.iso", bytes.ReplaceAll(bytes.ReplaceAll(content, []byte("igninfo.json"),
				[]byte("igninfo.jso_")), []byte("ignition.img"), []byte("ignition.im_")))}, fault.Input, "no Ignition area",
		},
		"no such karg": {[]string{"--iso", base, "--kargs-delete", "quiet"}, fault.Input, `there is no "quiet"`},
		"kargs too long": {
			[]string{"--iso", base, "--kargs-append", strings.Repeat("x", 600)}, fault.Input, "longer than the area",
		},
		"broken igninfo": {
			[]string{"--iso", write(t, "igninfo.iso", bytes.Replace(content, []byte(`{"file":"images`),
				[]byte(`{"file":images"`), 1))}, fault.Input, "coreos/igninfo.json",
		},
		"verify of a base": {nil, fault.Input, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			args := append([]string{"build", "--set", set, "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram, "-o", out},
				test.args...)
			if test.args == nil {
				args = []string{"verify", base}
			}
			code, _, stderr := pinbox(t.Context(), args...)
			if code != test.code || !strings.Contains(stderr, test.output) || !strings.Contains(stderr, "hint: ") {
				t.Errorf("got exit code %d, want %d\n%s", code, test.code, stderr)
			}
			if _, err := os.Stat(out); err == nil {
				t.Errorf("%s: got files left behind, want none", name)
			}
		})
	}
}

// A bug was to put a store for amd64 on an ISO for s390x.
func TestLiveISOForAnotherArchitecture(t *testing.T) {
	t.Parallel()
	kernel := append(make([]byte, 0x10008), "S390EP"...)
	base := fixtures.LiveISO(t, "-rock", "-graft-points", "images/pxeboot/vmlinuz="+write(t, "vmlinuz", kernel))
	set, out := write(t, "set.yaml", fixturesSet), filepath.Join(t.TempDir(), "folder", "out")
	config := write(t, "site.yaml", []byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: site}\n"+
		"spec: {sources: [{pinnedImageSets: ["+set+"]}], iso: {base: "+base+"}}\n"))
	for _, args := range [][]string{
		{"build", "--node-binary", nodeProgram, "--set", set, "--iso", base, "-o", out},
		{"build", "--node-binary", nodeProgram, "--set", set, "--iso", base, "-o", out, "--install-device", "/dev/sda"},
		{"plan", "-c", config},
	} {
		code, _, stderr := pinbox(t.Context(), append(args, "--insecure-registry=127.0.0.1")...)
		want := base + ": the image is for another architecture: it boots on s390x, and the store is for amd64\n" +
			"hint: name the live ISO"
		if code != fault.Input || !strings.Contains(stderr, want) {
			t.Errorf("%q: got exit code %d, want %d and %q\n%s", args, code, fault.Input, want, stderr)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); err != nil || len(left) > 0 {
			t.Errorf("%q: got %q left behind and %v, want none", args, left, err)
		}
	}
	var result struct{ ISO iso.Info }
	if code, stdout, stderr := pinbox(t.Context(), "inspect", base, "--output", "json"); code != 0 ||
		json.Unmarshal([]byte(stdout), &result) != nil || result.ISO.Architecture != "s390x" {
		t.Errorf("got exit code %d, want %d\n%s%s", code, 0, stdout, stderr)
	}
	if code, stdout, stderr := pinbox(t.Context(), "inspect", base); code != 0 ||
		!regexp.MustCompile(`(?m)^architecture +s390x$`).MatchString(stdout) {
		t.Errorf("got exit code %d, want %d\n%s%s", code, 0, stdout, stderr)
	}
}

// One byte of the store, the lock or the config: verify finds it in the ISO.
func TestVerifyFindsAChangedByteInAnISO(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	dir := filepath.Join(t.TempDir(), "out")
	code, _, stderr := pinbox(t.Context(), "build", "--set", write(t, "sets.yaml", pins.Sets()), "--insecure-registry=127.0.0.1",
		"--node-binary", nodeProgram,
		"-o", dir, "--iso", fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...))
	if code != 0 {
		t.Fatal(stderr)
	}
	content, err := os.ReadFile(filepath.Join(dir, "appliance.iso"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := os.ReadFile(filepath.Join(dir, "store.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]int{
		"store.squashfs": bytes.Index(content, store[:4096]) + len(store)/2,
		"lock.json":      bytes.Index(content, []byte(`"platform": "linux/amd64"`)) + 3,
	} {
		t.Run(name, func(t *testing.T) {
			bad := bytes.Clone(content)
			bad[at] ^= 1
			code, _, stderr := pinbox(t.Context(), "verify", write(t, "bad.iso", bad))
			if code != fault.Damaged || !strings.Contains(stderr, name+" has changed") {
				t.Errorf("%s: got exit code %d, want %d and %q\n%s",
					name, code, fault.Damaged, name+" has changed", stderr)
			}
		})
	}
	other := filepath.Join(t.TempDir(), "other.iso")
	if err := restore(t, filepath.Join(dir, "appliance.iso"), other); err != nil {
		t.Fatal(err)
	}
}

// A name in an archive of others may hold what a terminal would obey.
func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"etc/key": "etc/key", "ein/größe": "ein/größe", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := printable(name); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// restore writes the base of a live ISO to out, byte for byte.
func restore(t *testing.T, edited, out string) error {
	t.Helper()
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(artifact.Extract(t.Context(), edited, layout.MediumBase, f), f.Close())
}
