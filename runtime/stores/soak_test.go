package stores_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// Releases come and go, and nothing is left of them: no mount, no file, no loop device, and no descriptor
// of CRI-O. `make soak` makes 200 cycles.
func TestCyclesOfReleases(t *testing.T) {
	s := newSystem(t, 3)
	s.mustRun("firstboot")
	var first, last left
	cycles := fixtures.Soak(t, 2)
	for i := range cycles {
		s.mustRun("attach", s.stores[1])
		s.mustRun("attach", s.stores[2])
		s.wantPinned(2)
		s.mustRun("rollback")
		s.wantPinned(1)
		s.mustRun("detach", "2")
		s.checkConsistency([]string{"detach"})
		if last = s.left(); i == 0 {
			first = last
		}
	}
	t.Logf("after %d cycles: %+v, after the first: %+v", cycles, last, first)
	if last.mounts != first.mounts || !slices.Equal(last.files, first.files) ||
		last.loops > first.loops+4 || // other tests use some
		last.crio.Descriptors > first.crio.Descriptors+8 {
		t.Errorf("after %d cycles: got %+v, want %+v", cycles, last, first)
	}
}

// left is what there is after a cycle.
type left struct {
	mounts, loops int
	files         []string
	crio          fixtures.Usage
}

func (s *testSystem) left() left {
	s.t.Helper()
	loops := strings.Count(fixtures.Run(s.t, "losetup", "--list", "--noheadings"), "\n")
	return left{s.countMounts(), loops, s.pinboxFiles(), fixtures.UsageOf(s.t, s.Process())}
}
