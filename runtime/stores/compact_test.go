package stores_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A chain of deltas is compacted to one store. It replaces them before CRI-O next starts, while
// containers of the replaced stores keep running; then their slots are free.
func TestCompact(t *testing.T) {
	s := newSite(t, 6)
	s.must("firstboot")
	s.refused(3, "compaction needs at least two stores", "compact")
	for n := 1; n < 5; n++ {
		s.must("attach", s.stores[n])
	}
	kept, crio := s.waits(s.pins[1][1]), s.Process()
	before := s.left()
	if out := s.must("compact").Out; !strings.Contains(out, "compacted 4 stores") {
		t.Error(out)
	}
	s.must("compact") // does nothing
	if after := s.left(); len(after) != len(before)+1 || s.Process() != crio {
		t.Errorf("got the files %v, want those of %v and one more, and CRI-O running on", after, before)
	}
	s.must("mount") // CRI-O runs
	if got := s.mounted(); got != 5 {
		t.Errorf("got %d mounts while CRI-O runs, want 5", got)
	}
	s.pinned(4)
	s.Stop(syscall.SIGTERM)
	s.must("mount")
	if got := s.mounted(); got != 2 {
		t.Errorf("got %d mounts afterwards, want 2\n%s", got, s.Do("stores").Out)
	}
	s.Start()
	s.State(kept, criapi.ContainerState_CONTAINER_RUNNING)
	s.must("firstboot")
	s.pinned(4)
	s.runs(4)
	s.runs(0)
	s.must("rollback")
	s.pinned(3)
	s.runs(3)
	s.must("attach", s.stores[4]) // which is in the compacted store
	s.pinned(4)
	s.must("attach", s.stores[5]) // whose base was replaced
	s.pinned(5)
	s.runs(5)
	if got := s.mounted(); got != 3 {
		t.Errorf("got %d mounts, want 3", got)
	}
	if copies := slices.DeleteFunc(s.left(), func(name string) bool {
		return !strings.HasSuffix(name, ".squashfs")
	}); len(copies) != 2 {
		t.Errorf("got the copies %v, want 2", copies)
	}
	s.ends(kept)
}

// A second compaction of the same stores makes the same bytes: then one of the attached stores is
// the compacted one, and only the others are removed.
func TestCompactToAStoreThatIsThere(t *testing.T) {
	s := newSite(t, 3)
	compact := func() {
		t.Helper()
		s.must("attach", s.stores[1])
		s.must("attach", s.stores[2])
		s.must("compact")
		s.Stop(syscall.SIGTERM)
		s.must("mount")
		if got := s.mounted(); got != 2 {
			t.Errorf("got %d mounts, want 2", got)
		}
		s.Start()
	}
	compact()
	s.must("attach", s.stores[0], "--keep-sets") // its own
	s.must("rollback")
	bare := copied(t, s.stores[1]) // whose digest is known, so it is not copied again
	s.must("attach", bare)
	s.pinned(1)
	s.must("attach", s.stores[2])
	s.pinned(2)
	s.refused(3, "compaction needs at least two stores", "compact")
}

// With --all, the compacted store also has the layers of the appliance's own, and needs no other.
func TestCompactAll(t *testing.T) {
	s := newSite(t, 2)
	s.must("attach", s.stores[1])
	s.must("compact", "--all")
	s.Stop(syscall.SIGTERM)
	s.must("mount")
	s.Run("umount", "/var/lib/pinbox/stores/0")
	s.Start()
	s.must("firstboot")
	s.pinned(1)
	s.runs(1)
}

// A container needs an image that the compacted store does not have: the stores stay.
func TestCompactionDiscarded(t *testing.T) {
	s := newSite(t, 5)
	for n := 1; n < 5; n++ {
		s.must("attach", s.stores[n])
	}
	s.must("compact")
	of2 := s.waits(s.pins[2][2]) // of a release that is not kept
	s.must("attach", s.stores[4])
	s.Stop(syscall.SIGTERM)
	s.refused(1, "the compacted store lacks something for the container", "mount")
	s.must("mount")
	s.Start()
	s.must("firstboot")
	s.pinned(4)
	s.runs(2)
	s.ends(of2)
	if got := s.mounted(); got != 5 {
		t.Errorf("got %d mounts, want 5", got)
	}
}

// A compaction runs at the lowest priority.
func TestCompactionPriority(t *testing.T) {
	s := newSite(t, 3)
	s.must("attach", s.stores[1])
	s.must("attach", s.stores[2])
	cmd := s.Pinbox("compact")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := make(chan bool)
	go func() {
		for { // until it is gone; before that nsenter becomes pinbox-node
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
			_, after, _ := strings.Cut(string(stat), ") ")
			fields := strings.Fields(after) // from the third on: proc_pid_stat(5)
			if err != nil || len(fields) < 17 || fields[0] == "Z" || fields[16] == "19" {
				seen <- err == nil && len(fields) > 16 && fields[16] == "19"
				return
			}
		}
	}()
	if !<-seen {
		t.Error("got another niceness, want 19")
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
