package stores_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// Releases come and go, and nothing is left of them: no mount, no file, no loop device. `make soak`
// makes 200 cycles.
func TestCyclesOfReleases(t *testing.T) {
	s := newSystem(t, 3)
	s.mustRun("firstboot")
	var mounts, loops int
	var files []string
	cycles := fixtures.Soak(t, 2)
	for i := range cycles {
		s.mustRun("attach", s.stores[1])
		s.mustRun("attach", s.stores[2])
		s.wantPinned(2)
		s.mustRun("rollback")
		s.wantPinned(1)
		s.mustRun("detach", "2")
		s.checkConsistency([]string{"detach"})
		if i == 0 {
			mounts, loops, files = s.countMounts(), countLoops(t), s.pinboxFiles()
		}
	}
	if got := countLoops(t); got > loops+4 { // other tests use some
		t.Errorf("after %d cycles: got %d loop devices, want %d", cycles, got, loops)
	}
	if got := s.pinboxFiles(); s.countMounts() != mounts || !slices.Equal(got, files) {
		t.Errorf("after %d cycles: got %d mounts and the files %v, want %d and %v", cycles, s.countMounts(), got, mounts, files)
	}
}

func countLoops(t *testing.T) int {
	t.Helper()
	return strings.Count(fixtures.Run(t, "losetup", "--list", "--noheadings"), "\n")
}
