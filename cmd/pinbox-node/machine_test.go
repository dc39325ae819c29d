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
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// Faults of the machine, each with a real CRI-O.

// While /run is full, a pass changes nothing and says so. The status stays that of the last pass, and
// the first pass with space does the work.
func TestFullRun(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]string{
		"bytes":  "dd if=/dev/zero of=filler bs=4096 2>&1 | grep -q 'No space left'",
		"inodes": "! touch $(seq -f filler%g 100) 2>/dev/null",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, registry, _ := boot(t)
			a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
			dir := n.Path("small")
			n.Run("mkdir", dir)
			n.Run("mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=20", "tmpfs", dir)
			inside := func(command string) string { return n.Run("sh", "-ec", "cd "+dir+"; "+command) }
			wantFull := func(pins ...string) {
				t.Helper()
				inside(fill)
				checkRun(t, n, 5, "firstboot --set status="+dir+"/status.json", dir, "no space left on device", "hint: free space")
				if got := inside("ls | grep -v -e filler -e '^locks$' || true"); got != "" && got != "metrics.prom\nstatus.json\n" {
					t.Errorf("got the files %q, want those of the last pass", got)
				}
				wantPinned(t, n, pins...)
			}
			n.WriteSet("s.yaml", sample.SetNamed("s", a))
			wantFull()
			inside("rm filler*")
			checkRun(t, n, 0, "firstboot --set status="+dir+"/status.json")
			wantPinned(t, n, a)
			before := inside("cat status.json")
			n.WriteSet("s.yaml", sample.SetNamed("s", b))
			wantFull(a)
			if got := inside("cat status.json"); got != before {
				t.Errorf("got another status:\n%s\nwant that of the last pass:\n%s", got, before)
			}
			inside("rm filler*")
			checkRun(t, n, 0, "firstboot --set status="+dir+"/status.json")
			wantPinned(t, n, b)
		})
	}
}

// All that a node has was written later than now: its clock was set back. Passes work, and no time in
// the status is in the future.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	s := healthy(t, n)
	ahead := time.Now().AddDate(10, 0, 0).UTC()
	s.Time = ahead
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = ahead
	}
	content, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(n.Path("lib/status.json"), content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{n.Path("lib"), filepath.Join(n.Root, "etc"), filepath.Join(n.Root, "var/lib/pinbox")} {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(path, ahead, ahead))
		}); err != nil {
			t.Fatal(err)
		}
	}
	checkRun(t, n, 0, "status")
	n.WriteSet("s.yaml", sample.SetNamed("s", b))
	s = healthy(t, n, "--set=prune=true")
	wantPinned(t, n, b)
	now := time.Now()
	for _, c := range s.Conditions {
		if s.Time.After(now) || c.LastTransitionTime.After(now) {
			t.Errorf("got the time %v and %+v, want none after %v", s.Time, c, now)
		}
	}
}

// Before a system is installed, a disk that is too small for it and the store has an exit code of its own.
func TestExitCodeOfASmallDisk(t *testing.T) {
	fixtures.NeedRoot(t)
	dir := t.TempDir()
	sums := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte("store")), layout.StoreFile)
	for name, content := range map[string]string{layout.StoreFile: "store", layout.MediumSums: sums, "disk": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "disk"), 1<<20); err != nil {
		t.Fatal(err)
	}
	disk := fixtures.LoopDevice(t, filepath.Join(dir, "disk"))
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"install-store", "--check", "--medium", dir, disk}, &out, &errOut)
	if want := "the store does not fit on the disk"; code != fault.Space || !strings.Contains(errOut.String(), want) ||
		!strings.Contains(errOut.String(), "hint: use a larger disk") {
		t.Errorf("got exit code %d, want %d and %q\n%s", code, fault.Space, want, errOut.String())
	}
}
