package iso

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
)

// dieAt is the variable with the number of parts after which the test program, which then makes an
// image, kills itself.
const dieAt = "PINBOX_TEST_DIE_AT"

func TestMain(m *testing.M) {
	if part, err := strconv.Atoi(os.Getenv(dieAt)); err == nil {
		os.Exit(mortal(part))
	}
	os.Exit(m.Run())
}

// mortal runs a job, whose fields are the arguments of the process.
func mortal(part int) int {
	j := job{os.Args[1], os.Args[2]}
	err := j.run(context.Background(), os.Args[3], after(part, func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// after returns a hook that calls do when that many parts are written.
func after(parts int, do func()) (written func(int)) {
	return func(int) {
		if parts--; parts == 0 {
			do()
		}
	}
}

// job makes a live ISO, or a medium if there is no base.
type job struct{ base, store string }

func (j job) run(ctx context.Context, out string, written func(int)) error {
	f, err := os.Open(j.store)
	if err != nil {
		return err
	}
	defer f.Close()
	additions := []Addition{{"lock.json", 5, strings.NewReader("lock\n")}, addition(f)}
	if j.base == "" {
		return Create(ctx, out, MediumLabel, 0o644, time.Unix(0, 0), additions, written)
	}
	return Apply(ctx, j.base, out, Edit{Ignition: []byte("{}"), Additions: additions, Written: written})
}

// cancelled runs a job and cancels it after a part. It returns false if the job has fewer parts.
func cancelled(t *testing.T, j job, part int, out string) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := j.run(ctx, out, after(part, cancel))
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("part %d: got %v, want %v", part, err, context.Canceled)
	}
	return err != nil
}

// killed is cancelled with a process that kills itself.
func killed(t *testing.T, j job, part int, out string) bool {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, j.base, j.store, out)
	cmd.Env = append(os.Environ(), dieAt+"="+strconv.Itoa(part))
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("part %d: got %v, want %v\n%s", part, err, syscall.SIGKILL, output)
	}
	return err != nil
}

// A run that is stopped after any part leaves no image, and does not change the image of a later run. A
// killed process leaves its partial file.
func TestStoppedAtEveryPart(t *testing.T) {
	live := job{fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...), sparse(t, 100<<20).Name()}
	medium := job{"", live.store}
	for name, test := range map[string]struct {
		job  job
		stop func(t *testing.T, j job, part int, out string) (stopped bool)
		left int // by all runs
	}{
		"live ISO, cancelled": {live, cancelled, 0},
		"live ISO, killed":    {live, killed, 1},
		"medium, cancelled":   {medium, cancelled, 0},
		"medium, killed":      {medium, killed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			undisturbed, out := filepath.Join(t.TempDir(), "out.iso"), filepath.Join(t.TempDir(), "out.iso")
			if err := test.job.run(t.Context(), undisturbed, nil); err != nil {
				t.Fatal(err)
			}
			part := 1
			for ; test.stop(t, test.job, part, out); part++ {
				left := names(t, filepath.Dir(out))
				if len(left) > test.left || len(left) == 1 && left[0] != ".out.iso.pinbox-partial" {
					t.Errorf("got the files %v after %d stopped runs, want at most %d", left, part, test.left)
				}
			}
			if part < 5 { // lock, both ends of the store, tables
				t.Errorf("got %d parts, want 4 or more", part-1)
			}
			if left := names(t, filepath.Dir(out)); len(left) != 1 {
				t.Errorf("got the files %v after the last run, want the image", left)
			}
			if digest(t, out) != digest(t, undisturbed) {
				t.Error("got another image after stopped runs, want that of an undisturbed run")
			}
		})
	}
}

// names returns the names of all files in a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// If the disk is full, the error names the output, and no file stays.
func TestNoSpace(t *testing.T) {
	fixtures.NeedRoot(t)
	store := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(store, []byte(noise(8<<20)), 0o644); err != nil {
		t.Fatal(err)
	}
	live, medium := job{fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...), store}, job{"", store}
	edited := filepath.Join(t.TempDir(), "edited.iso")
	if err := live.run(t.Context(), edited, nil); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		space string
		run   func(out string) error
	}{
		"for the base":  {"1m", func(out string) error { return live.run(t.Context(), out, nil) }},
		"for the store": {"6m", func(out string) error { return live.run(t.Context(), out, nil) }},
		"for a medium":  {"6m", func(out string) error { return medium.run(t.Context(), out, nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mount(t, dir, "-t", "tmpfs", "-o", "size="+test.space, "tmpfs")
			out := filepath.Join(dir, "out.iso")
			if err := test.run(out); !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), out+": ") {
				t.Errorf("got %v, want %v of %s", err, syscall.ENOSPC, out)
			}
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("got the files %v, want none", left)
			}
		})
	}
}

// mount mounts something at dir for the length of the test.
func mount(t *testing.T, dir string, what ...string) {
	t.Helper()
	fixtures.Run(t, "mount", append(what, dir)...)
	t.Cleanup(func() { fixtures.Run(t, "umount", dir) })
}

// The base may be on a read-only file system.
func TestReadOnlyBase(t *testing.T) {
	fixtures.NeedRoot(t)
	base := fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...)
	before := digest(t, base)
	if err := os.Chmod(base, 0o444); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mount(t, dir, "--bind", "-o", "ro", filepath.Dir(base))
	bound := filepath.Join(dir, filepath.Base(base))
	if f, err := os.OpenFile(bound, os.O_WRONLY, 0); !errors.Is(err, syscall.EROFS) {
		t.Fatalf("got %v, %v; want %v", f, err, syscall.EROFS)
	}
	store := sparse(t, 1<<20).Name()
	for _, path := range []string{base, bound} {
		out, again := filepath.Join(t.TempDir(), "out.iso"), filepath.Join(t.TempDir(), "again.iso")
		if err := (job{path, store}).run(t.Context(), out, nil); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(out); err != nil || fi.Mode() != 0o644 {
			t.Errorf("got %v, %v; want mode 0644", fi, err)
		}
		if err := restore(out, again); err != nil || digest(t, again) != before {
			t.Errorf("reset: got another image, %v; want the base", err)
		}
	}
	if digest(t, base) != before {
		t.Error("got a changed base, want it unchanged")
	}
}

// The base is not overwritten, by whichever name the output has.
func TestBaseAsOutput(t *testing.T) {
	base := fixtures.LiveISO(t, fixtures.LiveISOs["Rock Ridge"]...)
	before, dir := digest(t, base), t.TempDir()
	hard, symbolic := filepath.Join(dir, "hard.iso"), filepath.Join(dir, "symbolic.iso")
	if err := errors.Join(os.Link(base, hard), os.Symlink(base, symbolic)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ base, out string }{
		"the same name":               {base, base},
		"a hard link":                 {base, hard},
		"a symbolic link":             {base, symbolic},
		"behind a symbolic link":      {symbolic, base},
		"the same, spelled otherwise": {base, filepath.Dir(base) + "/./" + filepath.Base(base)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Apply(t.Context(), test.base, test.out, Edit{}); !errors.Is(err, ErrSameFile) {
				t.Errorf("got %v, want %v", err, ErrSameFile)
			}
		})
	}
	for _, path := range []string{base, hard, symbolic} {
		if digest(t, path) != before {
			t.Errorf("got a changed %s, want it unchanged", path)
		}
	}
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("got the files %v, want the two links", got)
	}
}
