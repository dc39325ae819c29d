package main

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// usage is what a process has, from /proc/PID.
type usage struct{ residentKB, descriptors, threads int }

func usageOf(t *testing.T, pid int) usage {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	f, err := os.Open(filepath.Join(dir, "status"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var u usage
	for s := bufio.NewScanner(f); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), ":")
		number, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB")) // others are not used
		switch name {
		case "VmRSS":
			u.residentKB = number
		case "Threads":
			u.threads = number
		}
	}
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	u.descriptors = len(open)
	return u
}

// While the sets change every second, `run` follows them, and what it has does not grow. `make soak`
// runs this for an hour.
func TestSetThatChangesEachSecond(t *testing.T) {
	n, registry, _ := boot(t)
	sets := [2][]string{{push(t, registry, "app/a", 1000)}, {push(t, registry, "app/b", 2000)}}
	n.WriteSet("s.yaml", sample.SetNamed("s", sets[0]...))
	cmd, stop := start(t, n, "run", "--prune")
	eventually(t, "the first set is pinned", func() bool { return currentStatus(n).Healthy() })
	var first, last usage
	changes := fixtures.Soak(t, 6)
	for i := range changes {
		n.WriteSet("s.yaml", sample.SetNamed("s", sets[(i+1)%2]...))
		time.Sleep(time.Second) // the pace is what is tested
		if last = usageOf(t, cmd.Process.Pid); i == min(changes/2, 60) {
			first = last // after it has warmed up
		}
	}
	want := sets[changes%2]
	eventually(t, "the last set is pinned", func() bool {
		s := currentStatus(n)
		return s.Healthy() && len(s.Images) == 1 && s.Images[0].Name == want[0]
	})
	wantPinned(t, n, want...)
	t.Logf("after %d changes: %+v, before: %+v", changes, last, first)
	if last.residentKB > first.residentKB*3/2 || last.descriptors > first.descriptors+8 || last.threads > first.threads+8 {
		t.Errorf("after %d changes: got %+v, want about %+v", changes, last, first)
	}
	stop()
}

// A user who may not open a lock cannot hold it, which would stop all passes.
func TestLocksAreForRootOnly(t *testing.T) {
	n, registry, _ := boot(t)
	n.WriteSet("s.yaml", sample.SetNamed("s", push(t, registry, "app/a", 1000)))
	healthy(t, n)
	locks := 0
	for _, dir := range []string{n.Path("lib"), n.Sets()} {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "lock") {
				return err
			}
			locks++
			fi, err := d.Info()
			if err == nil && fi.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: got the mode %v, want 0600", path, fi.Mode())
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	if locks == 0 {
		t.Error("got no lock, want some")
	}
}
