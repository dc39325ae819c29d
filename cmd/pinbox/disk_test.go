package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// diskCommands are commands that write, and what each writes on an intact disk.
func diskCommands(t *testing.T) (commands map[string][]string, want map[string]map[string]string) {
	t.Helper()
	pins := samples(t)
	sets := func(pins ...string) string { return write(t, "sets.yaml", sample.Set("worker", pins...)) }
	build := []string{"build", "--node-binary", "/bin/true", "--insecure-registry=127.0.0.1", "--set"}
	old := filepath.Join(t.TempDir(), "old")
	if code, _, stderr := pinbox(t.Context(), append(build, sets(pins.Pause), "-o", old)...); code != cli.ExitOK {
		t.Fatalf("got exit code %d, want %d\n%s", code, cli.ExitOK, stderr)
	}
	delta := []string{"delta", "--insecure-registry=127.0.0.1", "--from", old, "--set", sets(pins.Pause, pins.Mixed)}
	next := filepath.Join(t.TempDir(), "delta")
	if code, _, stderr := pinbox(t.Context(), append(slices.Clip(delta), "-o", next)...); code != cli.ExitOK {
		t.Fatalf("got exit code %d, want %d\n%s", code, cli.ExitOK, stderr)
	}
	commands = map[string][]string{
		"build":             append(slices.Clip(build), sets(pins.Pause)),
		"build with an ISO": append(slices.Clip(build), sets(pins.Pause), "--iso", fixtures.LiveISO(t)),
		"delta":             delta,
		"medium":            {"medium", next},
	}
	want = map[string]map[string]string{}
	for name, args := range commands {
		out := filepath.Join(t.TempDir(), "out")
		if code, _, stderr := pinbox(t.Context(), append(args, "-o", out)...); code != cli.ExitOK {
			t.Fatalf("%s: got exit code %d, want %d\n%s", name, code, cli.ExitOK, stderr)
		}
		want[name] = fixtures.Tree(t, out)
	}
	return commands, want
}

// checkOutput checks that the output is whole, or after an error not there, and nothing else beside it.
func checkOutput(t *testing.T, dir string, code int, want map[string]string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if code != cli.ExitOK && len(left) == 0 {
		return
	}
	if len(left) != 1 {
		t.Errorf("got exit code %d and the files %v, want out alone", code, left)
	}
	if diff := cmp.Diff(want, fixtures.Tree(t, filepath.Join(dir, "out"))); diff != "" {
		t.Errorf("got exit code %d and another output (-want +got):\n%s", code, diff)
	}
}

// On a disk of any size, a command succeeds or says that there is no space. With more space, the
// next one succeeds.
func TestDisksOfAnySize(t *testing.T) {
	fixtures.NeedRoot(t)
	commands, want := diskCommands(t)
	for name, args := range commands {
		disk := t.TempDir()
		fixtures.Run(t, "mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", disk)
		t.Cleanup(func() { fixtures.Run(t, "umount", disk) })
		dir, cache := filepath.Join(disk, "dir"), filepath.Join(disk, "cache")
		succeeded := 0
		for step := range 20 {
			// From a page on, in steps that grow: to 32 MiB.
			size := 4096 * (1 + step*step*step*8192/(19*19*19))
			t.Run(fmt.Sprintf("%s in %d bytes", name, size), func(t *testing.T) {
				fixtures.Run(t, "mount", "-o", fmt.Sprintf("remount,size=%d", size), disk)
				for _, folder := range []string{dir, cache} {
					if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
						t.Fatal(err)
					}
				}
				t.Setenv("TMPDIR", dir)
				t.Setenv("XDG_CACHE_HOME", cache)
				code, _, stderr := pinbox(t.Context(), append(args, "-o", filepath.Join(dir, "out"))...)
				t.Setenv("TMPDIR", "/tmp")
				if code == cli.ExitOK {
					succeeded++
				} else if code != cli.ExitSpace || !strings.Contains(stderr, "hint: free space") {
					t.Errorf("got exit code %d, want %d\n%s", code, cli.ExitSpace, stderr)
				}
				checkOutput(t, dir, code, want[name])
			})
		}
		if succeeded == 0 || succeeded == 20 {
			t.Errorf("%s: got %d of 20 that succeeded, want some", name, succeeded)
		}
	}
}

// inject are the calls that write to a disk. write(2) is missing: Go's runtime uses it, and does
// not survive if it fails. The test above has disks on which each write fails.
var inject = []string{"fsync", "renameat", "pwrite64", "mkdirat"}

// When a disk cannot write or sync, nothing incomplete gets its name, and the next run succeeds.
func TestDiskErrors(t *testing.T) {
	commands, want := diskCommands(t)
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	failed := map[string]int{}
	for name, args := range commands {
		for _, call := range inject {
			for when := 1; when <= 3; when++ {
				t.Run(fmt.Sprintf("%s, %s %d", name, call, when), func(t *testing.T) {
					dir := t.TempDir()
					line := slices.Concat(args, []string{"-o", filepath.Join(dir, "out")})
					if name != "medium" { // it has no cache
						line = append(line, "--no-cache")
					}
					failing := slices.Concat(fixtures.DiskError(t, call, when), []string{program}, line)
					text, err := exec.Command(failing[0], failing[1:]...).CombinedOutput()
					code := cli.ExitOK
					var exit *exec.ExitError
					if errors.As(err, &exit) {
						code = exit.ExitCode()
						failed[call]++
					}
					if code != cli.ExitOK && (code != cli.ExitOther || !strings.Contains(string(text), "input/output error") ||
						!strings.Contains(string(text), "\nhint: ")) {
						t.Errorf("got exit code %d, want %d, an error of the disk and a hint\n%s", code, cli.ExitOther, text)
					}
					checkOutput(t, dir, code, want[name])
					if code == cli.ExitOK { // there are fewer such calls
						return
					}
					if code, _, stderr := pinbox(t.Context(), line...); code != cli.ExitOK {
						t.Errorf("the next run: got exit code %d, want %d\n%s", code, cli.ExitOK, stderr)
					}
					checkOutput(t, dir, cli.ExitOK, want[name])
				})
			}
		}
	}
	for _, call := range inject {
		if failed[call] == 0 {
			t.Errorf("got no failure of %s, want some", call)
		}
	}
}
