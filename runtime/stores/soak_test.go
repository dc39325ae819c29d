package stores_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
)

// Releases come and go, and nothing is left of them: no mount, no file, no loop device, and no descriptor
// of CRI-O. `make soak` makes 200 cycles.
func TestCyclesOfReleases(t *testing.T) {
	t.Parallel()
	s := newOwnSystem(t, 3) // no other node has loop devices of files with these names
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
	if last.mounts != first.mounts || !slices.Equal(last.files, first.files) || last.loops > first.loops ||
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
	devices, loops := fixtures.Run(s.t, "losetup", "--list", "--noheadings", "--output", "BACK-FILE"), 0
	for _, store := range s.stores[1:] {
		_, sum, _ := strings.Cut(digestOf(s.t, filepath.Join(store, artifact.DeltaStoreFile)), ":")
		loops += strings.Count(devices, "/"+sum+".squashfs") // also of files that were removed
	}
	return left{s.countMounts(), loops, s.pinboxFiles(), fixtures.UsageOf(s.t, s.Process())}
}
