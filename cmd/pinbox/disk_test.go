package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// diskCommands are commands that write, and what each writes on an intact disk.
func diskCommands(t *testing.T) (commands map[string][]string, want map[string]map[string]string) {
	t.Helper()
	pins := smallSamples(t)
	sets := func(pins ...string) string { return write(t, "sets.yaml", sample.Set("worker", pins...)) }
	build := []string{"build", "--node-binary", nodeProgram, "--insecure-registry=127.0.0.1", "--set"}
	old := filepath.Join(t.TempDir(), "old")
	if code, _, stderr := pinbox(t.Context(), append(build, sets(pins.Pause), "-o", old)...); code != fault.OK {
		t.Fatalf("got exit code %d, want %d\n%s", code, fault.OK, stderr)
	}
	delta := []string{"delta", "--insecure-registry=127.0.0.1", "--from", old, "--set", sets(pins.Pause, pins.Mixed)}
	next := filepath.Join(t.TempDir(), "delta")
	if code, _, stderr := pinbox(t.Context(), append(slices.Clip(delta), "-o", next)...); code != fault.OK {
		t.Fatalf("got exit code %d, want %d\n%s", code, fault.OK, stderr)
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
		if code, _, stderr := pinbox(t.Context(), append(args, "-o", out)...); code != fault.OK {
			t.Fatalf("%s: got exit code %d, want %d\n%s", name, code, fault.OK, stderr)
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
	if code != fault.OK && len(left) == 0 {
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
				if code == fault.OK {
					succeeded++
				} else if code != fault.Space || !strings.Contains(stderr, "hint: free space") ||
					name == "medium" && strings.Contains(stderr, "--cache-dir") {
					t.Errorf("got exit code %d, want %d\n%s", code, fault.Space, stderr)
				}
				checkOutput(t, dir, code, want[name])
			})
		}
		if succeeded == 0 || succeeded == 20 {
			t.Errorf("%s: got %d of 20 that succeeded, want some", name, succeeded)
		}
	}
}

// Whichever operation fails on the disk with the output, the cache and the temporary files, nothing incomplete gets
// its name, and the next run succeeds. `make soak` has all of some 400 faults, and a usual run one of each kind and one
// in 32.
func TestFaultAtEachOperationOfACommand(t *testing.T) {
	commands, want := diskCommands(t)
	for _, name := range []string{"build with an ISO", "medium"} { // the others write nothing else
		t.Run(name, func(t *testing.T) {
			args, disk := commands[name], fixtures.NewFaultyDisk(t)
			dir := disk.Path("dir")
			disk.OneIn = 64
			run := func() (code int, stderr string) {
				t.Setenv("TMPDIR", disk.Dir)
				t.Setenv("XDG_CACHE_HOME", disk.Path("cache"))
				defer os.Setenv("TMPDIR", "/tmp")
				code, _, stderr = pinbox(t.Context(), append(slices.Clip(args), "-o", filepath.Join(dir, "out"))...)
				return code, stderr
			}
			clear := func() {
				if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(disk.Path("cache")), os.Mkdir(dir, 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			clear()
			var code int
			var stderr string
			disk.WithFaults(func() error {
				if code, stderr = run(); code != fault.OK {
					return errors.New(stderr)
				}
				return nil
			}, func(f fixtures.Fault, operation string, err error) {
				wantCode, text := fault.Other, "input/output error"
				if f.Errno == syscall.ENOSPC {
					wantCode, text = fault.Space, "no space left"
				}
				if err != nil && (code != wantCode || !strings.Contains(stderr, text) || !strings.Contains(stderr, "hint: ")) {
					t.Errorf("got exit code %d, want %d, %q and a hint\n%s", code, wantCode, text, stderr)
				}
				_, missing := os.Lstat(filepath.Join(dir, "out"))
				if err == nil || missing == nil {
					checkOutput(t, dir, fault.OK, want[name])
				}
				if said := strings.Contains(stderr, "/out is complete, but may be lost"); said != (err != nil && missing == nil) {
					t.Errorf("got that the output is complete: %v, want %v\n%s", said, !said, stderr)
				}
				if missing != nil {
					if code, stderr := run(); code != fault.OK {
						t.Errorf("the next run: got exit code %d, want %d\n%s", code, fault.OK, stderr)
					}
					checkOutput(t, dir, fault.OK, want[name])
				}
				clear()
			})
		})
	}
}

// A file may be too large for the file system of the output, as FAT is one of most sticks. A bug was an error without a
// cure. The limit is that of a process, so another one runs the build.
func TestFileThatIsTooLarge(t *testing.T) {
	const marker = "PINBOX_TEST_FSIZE"
	if args := os.Getenv(marker); args != "" {
		limit := unix.Rlimit{Cur: 64 << 10, Max: unix.RLIM_INFINITY}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		os.Exit(run(t.Context(), strings.Split(args, "\n"), os.Stdout, os.Stderr))
	}
	sets := write(t, "sets.yaml", sample.Set("worker", push(t, serve(t, nil), image(t, "amd64", noise(t, 1<<20)))))
	args := []string{"build", "--set", sets, "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram, "--no-cache", "-o",
		filepath.Join(t.TempDir(), "out")}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileThatIsTooLarge$")
	cmd.Env = append(os.Environ(), marker+"="+strings.Join(args, "\n"))
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != fault.Space || !strings.Contains(string(out), "--split") {
		t.Errorf("got exit code %d, want %d and --split\n%s", code, fault.Space, out)
	}
}
