package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

func samples(t *testing.T) sample.Pins {
	t.Helper()
	_, pins := fixtures.Samples(t)
	return pins
}

// smallSamples are the sample images for tests that build them hundreds of times: their program is 64 KB that do not
// run.
func smallSamples(t *testing.T) sample.Pins {
	t.Helper()
	registry, pins, err := sample.Start(t.Context(), randomBytes(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	return pins
}

// appliance writes an appliance file with everything in it, and what it names.
func appliance(t *testing.T, pins sample.Pins) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"sets/both.yaml": string(pins.Sets()),
		"sets/notes.txt": "not a set",
		"motd.bu": "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: /etc/motd\n    contents:\n" +
			"      inline: hello\n",
		"appliance.yaml": `apiVersion: pinbox/v1alpha1
kind: Appliance
metadata:
  name: ship-7
spec:
  platform: linux/amd64
  sources:
  - pinnedImageSets: [sets]
  store:
    blockSize: 262144
  ignition:
    butane: [motd.bu]
    sshAuthorizedKeys:
    - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBxSYDrPdxVLZ1qMTCYAK0gMMbmLuBnLvxBLDBdLPLvb me@ship
  node:
    store:
      partitionLabel: pinbox-store
    selinuxContext: a:b:c:s0
    binary: ` + nodeProgram + "\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "appliance.yaml")
}

func TestPlanBuildVerify(t *testing.T) {
	t.Parallel()
	file := appliance(t, samples(t))
	out := filepath.Join(t.TempDir(), "deep", "out")
	code, stdout, stderr := pinbox(t.Context(), "plan", "-c", file, "--insecure-registry=127.0.0.1")
	if code != fault.OK || !strings.Contains(stdout, "5 images of 2 sets for linux/amd64: 8 different layers") ||
		!strings.Contains(stderr, "warning: ") {
		t.Fatalf("plan: got exit code %d, want %d\n%s%s", code, fault.OK, stdout, stderr)
	}
	code, stdout, stderr = pinbox(t.Context(), "build", "-c", file, "--insecure-registry=127.0.0.1", "-o", out)
	if code != fault.OK || !strings.Contains(stdout, "built ship-7 for linux/amd64") ||
		!strings.Contains(stdout, "next: pinbox verify "+out) {
		t.Fatalf("build: got exit code %d, want %d\n%s%s", code, fault.OK, stdout, stderr)
	}
	names := slices.Sorted(maps.Keys(fixtures.Tree(t, out)))
	want := []string{
		".", "RUNBOOK.md", "SHA256SUMS", "config.bu", "config.ign", "kubelet-allowlist.conf", "manifests",
		"manifests/always",
		"manifests/always/mutate.yaml", "manifests/always/names.yaml", "manifests/always/warn.yaml", "manifests/infra-sample.yaml",
		"manifests/worker-sample.yaml", "pinbox.lock.json", "provenance.json", "runbook.sh", "store.roothash",
		"store.squashfs",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(out, link); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = pinbox(t.Context(), "verify", link)
	if code != fault.OK || !strings.Contains(stdout, "is intact: 14 files, 5 images") {
		t.Errorf("verify: got exit code %d, want %d and %q\n%s%s",
			code, fault.OK, "is intact: 14 files, 5 images", stdout, stderr)
	}
	bu, err := os.ReadFile(filepath.Join(out, artifact.ButaneFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"STORE=/dev/disk/by-partlabel/pinbox-store", "What=/run/pinbox/store-0",
		"Options=ro,nosuid,nodev,nofail,context=\"a:b:c:s0\"", "me@ship",
		"/etc/motd",
	} {
		if !strings.Contains(string(bu), want) {
			t.Errorf("got the config\n%s\nwant %q", bu, want)
		}
	}
	if blockSize := superblock(t, out, 12); blockSize != 262144 {
		t.Errorf("got blocks of %d bytes", blockSize)
	}
	if out := fixtures.Run(t, "sh", "-c", "cd "+out+" && sha256sum -c --strict SHA256SUMS"); strings.Count(out,
		": OK") != 14 {
		t.Errorf("sha256sum: got\n%s\nwant all sums equal", out)
	}
}

// superblock gives a field of the store's own description.
func superblock(t *testing.T, out string, at int64) uint32 {
	t.Helper()
	f, err := os.Open(filepath.Join(out, layout.StoreFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	field := make([]byte, 4)
	if _, err := f.ReadAt(field, at); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint32(field)
}

func TestSourceDateEpoch(t *testing.T) {
	sets := write(t, "sets.yaml", sample.Set("worker", samples(t).Pause))
	args := []string{"build", "--set", sets, "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram, "-o"}
	t.Setenv("SOURCE_DATE_EPOCH", "1234567890")
	out := filepath.Join(t.TempDir(), "out")
	if code, _, stderr := pinbox(t.Context(), append(args, out)...); code != fault.OK {
		t.Fatal(stderr)
	}
	if made := superblock(t, out, 8); made != 1234567890 {
		t.Errorf("got a store made at %d, want SOURCE_DATE_EPOCH", made)
	}
	// A bug was to blame an image for a time in milliseconds.
	for _, value := range []string{"yesterday", "-1", "1732600000000"} {
		t.Setenv("SOURCE_DATE_EPOCH", value)
		if code, _, stderr := pinbox(t.Context(), append(args, out)...); code != fault.Usage ||
			!strings.Contains(stderr, "SOURCE_DATE_EPOCH") {
			t.Errorf("got exit code %d, want %d and %q\n%s", code, fault.Usage, "SOURCE_DATE_EPOCH", stderr)
		}
	}
}

// Each platform of an index has a manifest of its own.
func TestPlatform(t *testing.T) {
	sets := write(t, "sets.yaml", sample.Set("worker", samples(t).Index))
	manifests := map[string]bool{}
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		code, stdout, stderr := pinbox(t.Context(), "plan", "--set", sets, "--insecure-registry=127.0.0.1", "--platform", platform,
			"--output", "json")
		var plan struct{ Lock pinset.Lock }
		if err := json.Unmarshal([]byte(stdout), &plan); code != fault.OK || err != nil {
			t.Fatalf("got exit code %d, want %d, %v\n%s", code, fault.OK, err, stderr)
		}
		if string(plan.Lock.Platform) != platform || plan.Lock.Images[0].Index == "" {
			t.Errorf("%s: %+v", platform, plan.Lock)
		}
		manifests[plan.Lock.Images[0].Manifest.String()] = true
	}
	if len(manifests) != 2 {
		t.Errorf("manifests %v", manifests)
	}
}

func TestOutputForPrograms(t *testing.T) {
	t.Parallel()
	file := appliance(t, samples(t))
	code, stdout, stderr := pinbox(t.Context(), "plan", "-c", file, "--insecure-registry=127.0.0.1", "--output", "json")
	var plan struct {
		Totals struct{ Images, Layers int }
		Lock   struct{ Images []any }
	}
	if err := json.Unmarshal([]byte(stdout), &plan); code != fault.OK || err != nil || plan.Totals.Images != 5 ||
		len(plan.Lock.Images) != 5 {
		t.Errorf("plan: got exit code %d, want %d, %v\n%s", code, fault.OK, err, stdout)
	}
	for line := range strings.Lines(stderr) {
		if !json.Valid([]byte(line)) {
			t.Errorf("got the progress %s, want a line of JSON", line)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	code, stdout, _ = pinbox(t.Context(), "build", "-c", file, "--insecure-registry=127.0.0.1", "--output", "json", "-o", out)
	var built builder.Result
	if err := json.Unmarshal([]byte(stdout), &built); code != fault.OK || err != nil || built.Name != "ship-7" ||
		built.StoreSize == 0 || built.StoreDigest == "" {
		t.Errorf("build: got exit code %d, want %d, %v\n%s", code, fault.OK, err, stdout)
	}
	code, stdout, _ = pinbox(t.Context(), "verify", out, "--output", "json")
	var verified verify.Result
	if err := json.Unmarshal([]byte(stdout), &verified); code != fault.OK || err != nil || verified.Files != 14 {
		t.Errorf("verify: got exit code %d, want %d, %v\n%s", code, fault.OK, err, stdout)
	}
}

func TestVerifyFindsEveryDamage(t *testing.T) {
	t.Parallel()
	file := appliance(t, samples(t))
	out := filepath.Join(t.TempDir(), "out")
	if code, _, stderr := pinbox(t.Context(), "build", "-c", file, "--insecure-registry=127.0.0.1", "-o", out); code != fault.OK {
		t.Fatal(stderr)
	}
	for name := range fixtures.Tree(t, out) {
		path := filepath.Join(out, name)
		if fi, err := os.Stat(path); err != nil || fi.IsDir() {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := append([]byte{}, content...)
		changed[len(changed)/2] ^= 1
		verifyFails(t, out, name, func() error { return os.WriteFile(path, changed, 0o644) })
		verifyFails(t, out, name, func() error { return os.WriteFile(path, content[:len(content)/2], 0o644) })
		verifyFails(t, out, name, func() error { return os.Remove(path) })
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Nor may the sums keep quiet about a file.
	manifest, sums := filepath.Join(out, "manifests/worker-sample.yaml"), filepath.Join(out, layout.SumsFile)
	keep, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	verifyFails(t, out, "worker-sample.yaml", func() error {
		fewer := slices.DeleteFunc(strings.SplitAfter(string(all), "\n"), func(line string) bool {
			return strings.Contains(line, "worker-sample")
		})
		return errors.Join(os.Remove(manifest), os.WriteFile(sums, []byte(strings.Join(fewer, "")), 0o644))
	})
	if err := errors.Join(os.WriteFile(manifest, keep, 0o644), os.WriteFile(sums, all, 0o644)); err != nil {
		t.Fatal(err)
	}
	extra := filepath.Join(out, "extra")
	verifyFails(t, out, "extra", func() error { return os.WriteFile(extra, nil, 0o644) })
	if err := os.Remove(extra); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := pinbox(t.Context(), "verify", out); code != fault.OK {
		t.Errorf("the folder as it was built: got %s, want success", stderr)
	}
}

func verifyFails(t *testing.T, out, name string, damage func() error) {
	t.Helper()
	if err := damage(); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := pinbox(t.Context(), "verify", out)
	if name == layout.SumsFile {
		name = "" // the message may name the file whose sum it was
	}
	if code != fault.Damaged || !strings.Contains(stderr, name) {
		t.Errorf("damage of %s: got exit code %d, want %d and %q\n%s", name, code, fault.Damaged, name, stderr)
	}
}

// Sums that fit do not make a folder true: its files must agree.
func TestVerifyComparesTheFilesWithEachOther(t *testing.T) {
	t.Parallel()
	pins := samples(t)
	build := func(set []byte) string {
		out := filepath.Join(t.TempDir(), "out")
		code, _, stderr := pinbox(t.Context(), "build", "--set", write(t, "sets.yaml", set), "--insecure-registry=127.0.0.1", "-o", out,
			"--node-binary", nodeProgram)
		if code != fault.OK {
			t.Fatal(stderr)
		}
		return out
	}
	one, two := build(sample.Set("worker", pins.Pause)), build(sample.Set("worker", pins.Docker))
	for name, test := range map[string]struct{ change, output string }{
		"another config.ign":          {"cp $other/config.ign .", "config.ign is not what config.bu translates to"},
		"another lock":                {"cp $other/pinbox.lock.json .", "is not the set of the lock"},
		"another manifest":            {"cp $other/manifests/*.yaml manifests/", "is not the set of the lock"},
		"config of another appliance": {"cp $other/config.bu $other/config.ign .", "config.ign does not pin the images of the lock"},
		"a store cut short":           {"truncate -s -5000 store.squashfs", "store.squashfs: there is no hash tree"},
	} {
		t.Run(name, func(t *testing.T) {
			mixed := filepath.Join(t.TempDir(), "mixed")
			fixtures.Run(t, "cp", "-r", one, mixed)
			fixtures.Run(t, "sh", "-ec", "cd "+mixed+"; other="+two+"; "+test.change+"; sha256sum config.bu config.ign "+
				"manifests/worker-sample.yaml pinbox.lock.json provenance.json store.roothash store.squashfs >SHA256SUMS")
			if code, _, stderr := pinbox(t.Context(), "verify", mixed); code != fault.Damaged ||
				!strings.Contains(stderr, test.output) {
				t.Errorf("got exit code %d, want %d and %q\n%s", code, fault.Damaged, test.output, stderr)
			}
		})
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	node := fixtures.Program(t, nodePackage)
	dir := t.TempDir()
	fixtures.Run(t, "cp", program, node, dir)
	out := filepath.Join(dir, "demo")
	text := fixtures.Run(t, filepath.Join(dir, "pinbox"), "demo", "-o", out, "--iso", fixtures.LiveISO(t))
	for _, want := range []string{
		"$ pinbox plan", "3 different layers", "$ pinbox build", "$ pinbox verify", "is intact",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("demo: got\n%s\nwant %q", text, want)
		}
	}
	for _, name := range []string{layout.StoreFile, artifact.ISOFile} {
		if _, err := os.Stat(filepath.Join(out, "appliance", name)); err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsForPrograms(t *testing.T) {
	code, stdout, stderr := pinbox(t.Context(), "plan", "-c", "no-such-file.yaml", "--output", "json")
	var f cli.Failure
	if err := json.Unmarshal([]byte(stderr), &f); err != nil || f.Code != fault.Input || code != fault.Input ||
		f.Hint == "" || !strings.Contains(f.Error, "no-such-file.yaml") || stdout != "" {
		t.Errorf("got exit code %d, want %d, %v\n%s%s", code, fault.Input, err, stdout, stderr)
	}
}

// A wrong path is not reported as corruption.
func TestVerifyOfSomethingElse(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "nothing"), t.TempDir(), write(t, "file", nil)} {
		if code, _, stderr := pinbox(t.Context(), "verify", path); code != fault.Input ||
			!strings.Contains(stderr, "not an appliance's folder or ISO") && !strings.Contains(stderr, "nothing: no such file") {
			t.Errorf("%s: got exit code %d, want %d\n%s", path, code, fault.Input, stderr)
		}
	}
}

// A new build once emptied a folder of the user's that was called out.partial.
func TestBuildKeepsItsHandsOffOtherFolders(t *testing.T) {
	pins := samples(t)
	parent := t.TempDir()
	mine := filepath.Join(parent, "out.partial", "notes")
	if err := os.MkdirAll(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := pinbox(t.Context(), "build", "--set", write(t, "sets.yaml", sample.Set("worker", pins.Pause)),
		"--insecure-registry=127.0.0.1",
		"--node-binary", nodeProgram, "-o", filepath.Join(parent, "out"))
	if _, err := os.Stat(mine); code != fault.OK || err != nil {
		t.Errorf("got exit code %d, want %d, %v\n%s", code, fault.OK, err, stderr)
	}
	// A link in the place where it grows would lead it to empty another folder.
	if err := os.Symlink(filepath.Dir(mine), filepath.Join(parent, ".other.pinbox-partial")); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = pinbox(t.Context(), "build", "--set", write(t, "sets.yaml", sample.Set("worker", pins.Pause)),
		"--insecure-registry=127.0.0.1",
		"--node-binary", nodeProgram, "-o", filepath.Join(parent, "other"))
	if _, err := os.Stat(mine); code != fault.Usage || err != nil {
		t.Errorf("got exit code %d, want %d, %v\n%s", code, fault.Usage, err, stderr)
	}
}

func TestBuildIntoTheCurrentFolder(t *testing.T) {
	pins := samples(t)
	t.Chdir(t.TempDir())
	code, _, stderr := pinbox(t.Context(), "build", "--set", write(t, "sets.yaml", sample.Set("worker", pins.Pause)),
		"--insecure-registry=127.0.0.1",
		"--node-binary", nodeProgram, "-o", ".")
	if code != fault.Usage || !strings.Contains(stderr, "it is the current folder") {
		t.Errorf("got exit code %d, want %d and %q\n%s", code, fault.Usage, "it is the current folder", stderr)
	}
}
