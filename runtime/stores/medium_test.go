package stores_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
)

// medium makes a loop device with the ISO of a delta.
func medium(t *testing.T, delta string) (device string) {
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
func TestAttachAMedium(t *testing.T) {
	s := newSite(t, 3)
	s.must("attach", medium(t, s.stores[1]))
	s.pinned(1)
	s.runs(1)
	file := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: s.stores[2], Out: file}); err != nil {
		t.Fatal(err)
	}
	s.must("attach", "--in-place", file)
	s.pinned(2)
	s.runs(2)
	s.must("rollback")
	s.must("detach", "2")
	if out := s.must("attach", "--auto", file).Out; !strings.Contains(out,
		"was attached once, and is not any more: nothing was changed") {
		t.Errorf("got %q, want that nothing was changed", out)
	}
	if got := s.mounted(); got != 2 {
		t.Errorf("got %d mounts, want 2", got)
	}
}

// A medium that is used in place is found again by its sums. Without it CRI-O starts with the
// other stores.
func TestMediumInPlace(t *testing.T) {
	s := newSite(t, 3)
	other := medium(t, s.stores[2])
	device := medium(t, s.stores[1])
	s.must("attach", "--in-place", device)
	s.pinned(1)
	s.runs(1)
	for _, name := range s.left() {
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
	s.must("mount")
	s.Start()
	s.pinned(1)
	s.runs(1)
	if got := s.mounted(); got != 2 {
		t.Errorf("got %d mounts, want 2", got)
	}
	reboot()
	fixtures.Run(t, "losetup", "--detach", device)
	s.refused(1, "no plugged-in medium has it", "mount")
	s.Start()
	s.runs(0)
	s.refused(1, "no plugged-in medium has it", "status")
	s.refused(1, "4 of 4 images are pinned", "rollback") // what was attached is still unavailable
	s.pinned(0)
	s.must("detach", "1")
	s.must("firstboot")
	s.refused(3, "layers are missing", "attach", other)
}
