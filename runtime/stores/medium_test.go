package stores_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
)

// newLoopDevice makes a loop device with the ISO of a delta.
func newLoopDevice(t *testing.T, delta string) (device string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: delta, Out: file}); err != nil {
		t.Fatal(err)
	}
	device = strings.TrimSpace(fixtures.Run(t, "losetup", "--find", "--show", "--read-only", file))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() }) // unless the test has done so
	return device
}

// The store of a medium is copied, unless the file of the medium is used in place.
func TestAttachMedium(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 3)
	s.mustRun("attach", newLoopDevice(t, s.stores[1]))
	s.wantPinned(1)
	s.checkContainer(1)
	file := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: s.stores[2], Out: file}); err != nil {
		t.Fatal(err)
	}
	s.mustRun("attach", "--in-place", file)
	s.wantPinned(2)
	s.checkContainer(2)
	s.mustRun("rollback")
	s.mustRun("detach", "2")
	if out := s.mustRun("attach", "--auto", file).Out; !strings.Contains(out,
		"was attached before and then detached: nothing was changed") {
		t.Errorf("got %q, want that nothing was changed", out)
	}
	if got := s.countMounts(); got != 2 {
		t.Errorf("got %d mounts, want 2", got)
	}
}

// A medium that is used in place is found again by its sums. Without it CRI-O starts with the
// other stores. No other test has a medium with this delta.
func TestMediumInPlace(t *testing.T) {
	t.Parallel()
	s := newThinSystem(t)
	other := newLoopDevice(t, sharedSeries(t).stores[2])
	device := newLoopDevice(t, s.whole[s.thin[1]])
	s.mustRun("attach", "--in-place", device)
	s.wantPinned(1)
	s.checkContainer(1)
	for _, name := range s.pinboxFiles() {
		if strings.HasSuffix(name, ".squashfs") {
			t.Errorf("got a copy %s, want none", name)
		}
	}
	reboot := func() {
		t.Helper()
		s.Stop(syscall.SIGTERM)
		s.Run("umount", "/var/lib/pinbox/stores/1")
	}
	reboot()
	s.mustRun("mount")
	s.Start()
	s.wantPinned(1)
	s.checkContainer(1)
	if got := s.countMounts(); got != 2 {
		t.Errorf("got %d mounts, want 2", got)
	}
	reboot()
	fixtures.Run(t, "losetup", "--detach", device)
	fixtures.Until(t, func() error { // a node of another test may look for its own medium there
		if _, err := os.Stat(filepath.Join("/sys/block", filepath.Base(device), "loop")); !os.IsNotExist(err) {
			return fmt.Errorf("%s is still there: %w", device, err)
		}
		return nil
	})
	s.wantExit(1, "no plugged-in medium has it", "mount")
	s.Start()
	s.checkContainer(0)
	s.wantExit(1, "no plugged-in medium has it", "status")
	s.wantExit(1, "4 of 4 images are pinned", "rollback") // the attached store is still unavailable
	s.wantPinned(0)
	s.mustRun("detach", "1")
	s.mustRun("firstboot")
	s.wantExit(3, "layers are missing", "attach", other)
}
