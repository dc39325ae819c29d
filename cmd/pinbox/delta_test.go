package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// upgrade is a site with an appliance of the first release, and appliance files of both.
type upgrade struct {
	t           *testing.T
	old         string
	first, next string
	flags       []string
}

func newUpgrade(t *testing.T) upgrade {
	t.Helper()
	program := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(program) // never fails
	pins, err := serve(t, nil).PushSeries(t.Context(), program, 2)
	if err != nil {
		t.Fatal(err)
	}
	u := upgrade{
		t: t, old: filepath.Join(t.TempDir(), "old"), flags: []string{
			"--insecure-registry=127.0.0.1", "--cache-dir", t.TempDir(), "--node-binary", nodeProgram,
		},
	}
	file := func(name string, pins []string, more string) string {
		sets := write(t, name+"-sets.yaml", sample.Set("worker", pins...))
		return write(t, name+".yaml", []byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: ship-7}\n"+
			"spec:\n  sources: [{pinnedImageSets: ["+sets+"]}]\n"+more))
	}
	u.first = file("first", pins[0], "")
	u.next = file("next", pins[1], "  ignition: {sshAuthorizedKeys: [ssh-ed25519 "+
		"AAAAC3NzaC1lZDI1NTE5AAAAIBxSYDrPdxVLZ1qMTCYAK0gMMbmLuBnLvxBLDBdLPLvb me]}\n")
	u.run(fault.OK, "built ship-7", append([]string{"build", "-c", u.first, "-o", u.old}, u.flags...)...)
	return u
}

func (u upgrade) run(code int, output string, args ...string) (stdout, stderr string) {
	u.t.Helper()
	got, stdout, stderr := pinbox(u.t.Context(), args...)
	if got != code || !strings.Contains(stdout+stderr, output) {
		u.t.Fatalf("%v: got exit code %d, want %d and %q\n%s%s", args, got, code, output, stdout, stderr)
	}
	return stdout, stderr
}

// delta gives its folder.
func (u upgrade) delta(from string) (dir, stdout, stderr string) {
	u.t.Helper()
	dir = filepath.Join(u.t.TempDir(), "delta")
	stdout, stderr = u.run(fault.OK, "built a delta of ship-7 for linux/amd64",
		append([]string{"delta", "--from", from, "-c", u.next, "-o", dir}, u.flags...)...)
	return dir, stdout, stderr
}

// A user's way to the next release: plan, delta, verify, medium.
func TestDelta(t *testing.T) {
	u := newUpgrade(t)
	u.run(fault.OK, "a delta would have 3 of 8 layers: ", "plan", "--from", u.old, "-c", u.next, "--insecure-registry=127.0.0.1")
	dir, stdout, stderr := u.delta(u.old)
	if !strings.Contains(stdout, "3 of 8 layers") ||
		!strings.Contains(stdout, "next: pinbox medium "+dir+" -o delta.iso") || !strings.Contains(stderr,
		"warning: a delta does not change the configuration of nodes; it ignores spec.ignition") {
		t.Errorf("%s%s", stdout, stderr)
	}
	u.run(fault.OK, "it has 3 layers and needs 5 layers of a base: not checked without --base", "verify", dir)
	medium := filepath.Join(t.TempDir(), "delta.iso")
	u.run(fault.OK, "", "medium", dir, "-o", medium)
	u.run(fault.OK, "4 files, 4 images in a store of", "verify", medium)
	u.run(fault.OK, "it has 3 layers and needs 5 layers of a base", "verify", medium)
	u.run(fault.OK, "PINBOX", "inspect", medium)
	for _, new := range []string{dir, medium} {
		u.run(fault.OK, "images: 3 changed, 0 added, 0 removed, 1 unchanged", "diff", u.old, new)
	}
	if os.Geteuid() == 0 {
		const checked = "containers/storage mounted all stores and found no errors in their layers"
		u.run(fault.OK, checked, "verify", dir, "--base", u.old)
		u.run(fault.OK, checked, "verify", medium, "--base", u.old)
	}
	u.run(fault.OK, "not checked: ", "verify", dir, "--base", filepath.Join(u.old, "pinbox.lock.json"))
	u.run(fault.Damaged, "no base has a layer that the delta needs", "verify", dir, "--base", dir)
	u.run(fault.Input, "--base is for the output of `pinbox delta` only", "verify", u.old, "--base", u.old)
	args := append([]string{"delta", "--from", u.old, "-c", u.next, "-o", dir}, u.flags...)
	u.run(fault.Usage, "is not empty", args...)
	other, _, _ := u.delta(filepath.Join(u.old, "pinbox.lock.json"))
	if old, new := mustRead(t, filepath.Join(dir, "delta.json")), mustRead(t,
		filepath.Join(other, "delta.json")); string(old) == string(new) {
		t.Error("got the same bases, want others: one is a lock alone")
	}
	again, _, _ := u.delta(u.old)
	if diff := cmp.Diff(fixtures.Tree(t, dir), fixtures.Tree(t, again)); diff != "" {
		t.Errorf("another build (-want +got):\n%s", diff)
	}
}

// Programs read what people read.
func TestDeltaForPrograms(t *testing.T) {
	u := newUpgrade(t)
	var plan struct{ Delta builder.Missing }
	stdout, _ := u.run(fault.OK, "", "plan", "--from", u.old, "-c", u.next, "--insecure-registry=127.0.0.1", "--output", "json")
	if err := json.Unmarshal([]byte(stdout), &plan); err != nil {
		t.Fatal(err)
	}
	var built builder.Result
	dir := filepath.Join(t.TempDir(), "delta")
	stdout, _ = u.run(fault.OK, "", append([]string{
		"delta", "--from", u.old, "-c", u.next, "-o", dir, "--output", "json",
	}, u.flags...)...)
	if err := json.Unmarshal([]byte(stdout), &built); err != nil {
		t.Fatal(err)
	}
	if plan.Delta.Layers != 3 || plan.Delta != *built.New || built.Out != dir || built.Store != "delta.squashfs" ||
		len(built.Bases) != 1 || len(built.Warnings) != 2 { // spec.ignition, and the registry without TLS
		t.Errorf("%+v\n%+v", plan, built)
	}
	var verified verify.Result
	stdout, _ = u.run(fault.OK, "", "verify", dir, "--base", u.old, "--output", "json")
	if err := json.Unmarshal([]byte(stdout), &verified); err != nil {
		t.Fatal(err)
	}
	if d := verified.Delta; d == nil || d.Layers != 3 || d.Needs != 5 || d.Mounted != (len(verified.Unchecked) == 0) ||
		verified.StoreDigest != built.StoreDigest {
		t.Errorf("%+v, %+v", verified, d)
	}
}

func TestBadDeltas(t *testing.T) {
	t.Parallel()
	u := newUpgrade(t)
	_, _ = u.run(fault.OK, "", "lock", "-c", u.first, "--insecure-registry=127.0.0.1")
	locked := strings.TrimSuffix(u.first, ".yaml") + ".lock.json"
	folder := write(t, "folder.yaml",
		[]byte(strings.Replace(string(mustRead(t, u.next)), "  ignition:", "  store: {format: dir}\n  ignition:", 1)))
	named := write(t, "named.yaml",
		[]byte(strings.Replace(string(mustRead(t, u.next)), "  ignition:", "  node: {binary: no-such-file}\n  ignition:", 1)))
	for _, c := range []struct {
		code   int
		output string
		args   []string
	}{
		{fault.Usage, "name the base with --from", []string{"-c", u.next}},
		{fault.Usage, "name the folder to make with -o", []string{"--from", u.old, "-c", u.next, "-o", ""}},
		{fault.Usage, "has no flag", []string{"--from", u.old, "-c", u.next, "more"}},
		{fault.Input, "check the path", []string{"--from", "/no/such/folder", "-c", u.next}},
		{fault.Input, "name the folder of a build with --from", []string{"--from", locked, "-c", u.next}},
		{fault.Input, "a delta is a squashfs", []string{"--from", u.old, "-c", folder}},
		{fault.Input, "pinbox-node cannot be used", []string{"--from", u.old, "-c", u.next, "--node-binary", "/no/such/file"}},
		{fault.Input, "pinbox-node cannot be used", []string{"--from", u.old, "-c", named, "--node-binary", ""}},
		{fault.Input, "it is for linux/amd64", []string{"--from", u.old, "-c", u.next, "--platform", "linux/arm64"}},
	} {
		out := filepath.Join(t.TempDir(), "delta")
		u.run(c.code, c.output, append(append([]string{"delta", "-o", out}, u.flags...), c.args...)...)
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%v: got %s made, want nothing", c.args, out)
		}
	}
}

// Nodes keep their program if the delta is built where there is none, unless the user asks for one.
func TestDeltaWithoutAProgram(t *testing.T) {
	u := newUpgrade(t)
	u.flags = append(u.flags, "--node-binary", "")
	dir, _, stderr := u.delta(u.old)
	if want := "warning: nodes keep their pinbox-node: there is none at "; !strings.Contains(stderr, want) {
		t.Errorf("got %s, want %q", stderr, want)
	}
	if lock := string(mustRead(t, filepath.Join(dir, "pinbox.lock.json"))); strings.Contains(lock, `"program"`) {
		t.Errorf("got a program in the lock, want none\n%s", lock)
	}
	u.run(fault.OK, "it has 3 layers and needs 5 layers of a base", "verify", dir)
}

// A delta needs less space than a full store. Layers are fetched early, so the disk may be full before it is known what
// the store needs.
func TestDeltaOnASmallDisk(t *testing.T) {
	u := newUpgrade(t)
	for name, cached := range map[string]bool{"without a cache": false, "with one": true} {
		disk := smallDisk(t) // of its own: what the other left would decide
		cache := []string{"--no-cache"}
		if cached {
			cache = []string{"--cache-dir", filepath.Join(disk, "cache")}
		}
		flags := append([]string{"-c", u.next, "--insecure-registry=127.0.0.1", "-o", filepath.Join(disk, name)}, cache...)
		u.run(fault.Space, "space", append([]string{"build", "--node-binary", nodeProgram}, flags...)...)
		if entries, err := os.ReadDir(filepath.Join(disk, name)); err == nil {
			t.Errorf("%s: got %v, want nothing of the build", name, entries)
		}
		if cached { // with the part of a layer that the build kept for its next run, if the registry was slow
			u.run(fault.OK, "removed: ", "cache", "prune", "--all", "--cache-dir", cache[1])
		}
		u.run(fault.OK, "built a delta", append([]string{"delta", "--from", u.old}, flags...)...)
	}
}

// A disk that becomes full leaves nothing of a thin delta, whether that is known before or not.
func TestThinDeltaOnAFullDisk(t *testing.T) {
	u := newUpgrade(t)
	disk := smallDisk(t)
	out := filepath.Join(disk, "delta")
	thin := append([]string{"delta", "--thin", "--from", u.old, "-c", u.next, "-o", out}, u.flags...)
	u.run(fault.OK, "built a thin delta", append(thin, "-o", filepath.Join(t.TempDir(), "delta"))...) // fills the cache
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	var free unix.Statfs_t
	if err := unix.Statfs(disk, &free); err != nil {
		t.Fatal(err)
	}
	for _, left := range []int64{4 << 10, 24 << 10} {
		taken := strconv.FormatInt(int64(free.Bavail*uint64(free.Bsize))-left, 10)
		fixtures.Run(t, "fallocate", "--length", taken, filler.Name())
		u.run(fault.Space, "space", thin...)
		entries, err := os.ReadDir(disk)
		if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.Contains(e.Name(), "delta") }) {
			t.Errorf("with %d bytes free: got %v, %v, want nothing of the delta", left, entries, err)
		}
		if err := filler.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	u.run(fault.OK, "built a thin delta", thin...)
}

// Another user than root is told what was not looked at.
func TestVerifyDeltaWithoutRoot(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	u := newUpgrade(t)
	dir, _, _ := u.delta(u.old)
	home := t.TempDir()
	program := filepath.Join(home, "pinbox")
	fixtures.Run(t, "cp", fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), program)
	for _, path := range []string{home, dir, u.old} {
		fixtures.Run(t, "chmod", "-R", "a+rX", path)
		fixtures.Run(t, "chmod", "a+x", filepath.Dir(path))
	}
	cmd := exec.Command(program, "verify", dir, "--base", u.old)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	stdout, stderr, code := runProgram(t, cmd)
	if code != fault.OK || !strings.Contains(stdout, "all found in "+u.old) ||
		!strings.Contains(stdout, "not checked: contents of the layers") || strings.Contains(stdout, "storage mounted") {
		t.Errorf("got exit code %d, want %d\n%s%s", code, fault.OK, stdout, stderr)
	}
	medium := filepath.Join(home, "delta.iso")
	u.run(fault.OK, "", "medium", dir, "-o", medium)
	cmd = exec.Command(program, "verify", medium, "--base", u.old)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	stdout, stderr, code = runProgram(t, cmd)
	if code != fault.OK || !strings.Contains(stdout, "all found in "+u.old) ||
		!strings.Contains(stdout, "not checked: contents of the layers") {
		t.Errorf("a medium: got exit code %d, want %d\n%s%s", code, fault.OK, stdout, stderr)
	}
	cmd = exec.Command(program, "verify", dir, "--base", u.old)
	if stdout, stderr, code := runProgram(t, cmd); code != fault.OK || !strings.Contains(stdout, "storage mounted") {
		t.Errorf("as root: got exit code %d, want %d and %q\n%s%s",
			code, fault.OK, "storage mounted", stdout, stderr)
	}
}

func runProgram(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	hasNoSecret(out.String() + errOut.String())
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// What does not go with reports is refused before anything is fetched, and so is a report without a signature.
func TestDeltaOfReportsIsRefused(t *testing.T) {
	reports := t.TempDir()
	report := `{"apiVersion":"pinbox.dev/v1alpha1","kind":"NodeImageStatus","metadata":{"name":"a"}}`
	if err := os.WriteFile(filepath.Join(reports, "a.json"), []byte(report), 0o644); err != nil {
		t.Fatal(err)
	}
	empty := write(t, "list.json", []byte(`{"apiVersion":"v1","kind":"List","items":[]}`))
	lock := write(t, "lock.json", []byte(`{"version":1}`))
	_, key := fixtures.Key(t)
	for args, c := range map[string]struct {
		code int
		want string
	}{
		"--from " + lock + " --max-deltas 2":        {fault.Usage, "go with --from and a folder of reports"},
		"--from " + lock + " --key " + key:          {fault.Usage, "go with --from and a folder of reports"},
		"--from " + lock + " --from " + reports:     {fault.Usage, "name either"},
		"--from " + reports + " --max-deltas -1":    {fault.Usage, "it is a number of deltas"},
		"--from " + reports + " --thin":             {fault.Usage, "a thin delta needs the contents"},
		"--from " + empty:                           {fault.Input, "no nodes"},
		"--from " + reports + " --key " + key:       {fault.Damaged, "sign"},
		"--from " + reports + "/none --from " + key: {fault.Input, "no such file"},
	} {
		t.Run(args, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			set := write(t, "set.yaml", sample.Set("worker", "quay.invalid/a/b@sha256:"+strings.Repeat("0", 64)))
			code, stdout, stderr := pinbox(t.Context(), append([]string{"delta", "--set", set, "-o", out},
				strings.Fields(args)...)...)
			if code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("got exit code %d, want %d and %q\n%s%s", code, c.code, c.want, stdout, stderr)
			}
			if _, err := os.Lstat(out); err == nil {
				t.Error("got an output folder, want none")
			}
		})
	}
}
