package main

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/filelock"
)

// countGoroutines is the variable with the file into which the test program, which then is
// pinbox-node, writes the number of its goroutines.
const countGoroutines = "PINBOX_TEST_COUNT_GOROUTINES"

// writeGoroutines makes the file whenever the process gets SIGUSR1.
func writeGoroutines(path string) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR1)
	if err := os.WriteFile(path, nil, 0o600); err != nil { // from now on it can be asked
		panic(err)
	}
	for range asked {
		count := strconv.Itoa(goruntime.NumGoroutine())
		if err := errors.Join(os.WriteFile(path+".new", []byte(count), 0o600), os.Rename(path+".new", path)); err != nil {
			panic(err)
		}
	}
}

// usage is what a process has.
type usage struct {
	fixtures.Usage
	goroutines int
}

// usageOf also gets the file of writeGoroutines.
func usageOf(t *testing.T, pid int, goroutines string) usage {
	t.Helper()
	if err := errors.Join(os.Remove(goroutines), unix.Kill(pid, unix.SIGUSR1)); err != nil {
		t.Fatal(err)
	}
	var count []byte
	fixtures.Until(t, func() (err error) {
		count, err = os.ReadFile(goroutines)
		return err
	})
	n, err := strconv.Atoi(string(count))
	if err != nil {
		t.Fatal(err)
	}
	return usage{fixtures.UsageOf(t, pid), n}
}

// peak has the most of each.
func peak(all []usage) (most usage) {
	for _, u := range all {
		most.ResidentKB = max(most.ResidentKB, u.ResidentKB)
		most.Descriptors = max(most.Descriptors, u.Descriptors)
		most.Threads = max(most.Threads, u.Threads)
		most.goroutines = max(most.goroutines, u.goroutines)
	}
	return most
}

// While the sets change again and again, and another user holds what he can, `run` follows them, and
// what it has does not grow. `make soak` runs this for an hour.
func TestSetThatKeepsChanging(t *testing.T) {
	t.Parallel()
	n, registry, access := boot(t)
	sets := [2][]string{{push(t, registry, "app/a", 1000)}, {push(t, registry, "app/b", 2000)}}
	n.WriteSet("s.yaml", sample.SetNamed("s", sets[0]...))
	healthy(t, n) // now there are the locks that another user tries to hold
	holdLocks(t, n)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	goroutines := filepath.Join(t.TempDir(), "goroutines")
	cmd := withProgram(n.Pinbox("run", "--set=prune=true"), program)
	cmd.Env = append(cmd.Environ(), countGoroutines+"="+goroutines)
	stop := launch(t, cmd, true)
	eventually(t, "the first set is pinned", func() bool { return currentStatus(n).Healthy() })
	changes := fixtures.Soak(t, 6)
	started := time.Now()
	var samples []usage
	for i := range changes {
		want := sets[(i+1)%2]
		n.WriteSet("s.yaml", sample.SetNamed("s", want...))
		eventually(t, "the new set is pinned", func() bool {
			s := currentStatus(n)
			return s.Healthy() && len(s.Images) == 1 && s.Images[0].Name == want[0]
		})
		samples = append(samples, usageOf(t, cmd.Process.Pid, goroutines))
		if span := max(changes/6, 1); (i+1)%span == 0 {
			t.Logf("after %v: at most %+v", time.Since(started).Round(time.Second), peak(samples[i+1-span:]))
		}
	}
	wantPinned(t, n, sets[changes%2]...)
	if pulls := len(fixtures.Blobs(access.Take())); pulls < changes {
		t.Errorf("got %d requests for layers and configurations, want one or more for each change", pulls)
	} else {
		t.Logf("%d requests for layers and configurations", pulls)
	}
	first, last := peak(samples[changes/6:changes/3]), peak(samples[changes-changes/6:]) // the first sixth warms up
	if last.ResidentKB > first.ResidentKB*3/2 || last.Descriptors > first.Descriptors+8 ||
		last.Threads > first.Threads+8 || last.goroutines > first.goroutines+8 {
		t.Errorf("after %d changes: got %+v, want about %+v", changes, last, first)
	}
	stop()
}

// A user who holds every lock that he can open does not stop a pass.
func TestLocksAreForRootOnly(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	n.WriteSet("s.yaml", sample.SetNamed("s", push(t, registry, "app/a", 1000)))
	healthy(t, n)
	holdLocks(t, n)
	healthy(t, n)
	n.WriteSet("s.yaml", sample.SetNamed("s", push(t, registry, "app/b", 2000)))
	healthy(t, n)
}

// holdLocks locks all files of pinbox-node that an unprivileged user can open, and until the end of
// the test those that appear. None of them may be a lock of pinbox-node.
func holdLocks(t *testing.T, n *crio.Node) {
	t.Helper()
	if err := os.Chmod(filepath.Dir(n.Root), 0o755); err != nil { // the test's own folder
		t.Fatal(err)
	}
	dirs := []string{n.Path("lib"), filepath.Join(n.Root, "etc"), filepath.Join(n.Root, "var/lib/pinbox")}
	begun, ended, held := make(chan struct{}, 1), make(chan struct{}), make(chan map[string]*os.File)
	go func() {
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		const nobody = 65534
		goruntime.LockOSThread() // and never unlocks it: the thread ends with its user
		if err := errors.Join(unix.Setfsgid(nobody), unix.Setfsuid(nobody)); err != nil {
			t.Error(err)
		}
		files := map[string]*os.File{}
		for {
			for _, dir := range dirs {
				_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
					if err == nil && d.Type().IsRegular() {
						holdLock(files, path)
					}
					return nil // what he cannot read, he passes over
				})
			}
			select {
			case begun <- struct{}{}:
			default:
			}
			select {
			case <-ended:
				held <- files
				return
			case <-again.C:
			}
		}
	}()
	<-begun
	t.Cleanup(func() {
		close(ended)
		files := <-held
		if len(files) == 0 {
			t.Error("got no file that another user can open, want some: the status is for everybody")
		}
		for path, f := range files {
			if strings.HasSuffix(path, "lock") {
				t.Errorf("got the lock %s held by another user, want none", path)
			}
			_ = f.Close() // it was only read
		}
	})
}

// holdLock locks the file that now has this name, if it can and has not yet.
func holdLock(files map[string]*os.File, path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	if err := filelock.Try(f); err != nil {
		_ = f.Close() // it was only read
		return
	}
	if old := files[path]; old != nil { // that file has been replaced
		_ = old.Close()
	}
	files[path] = f
}
