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

// A chain of deltas becomes one store. It takes their place when CRI-O starts next,
// while containers of the stores that go run on; then there is room for more.
func TestCompact(t *testing.T) {
	s := ship(t, 6)
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
	s.must("compact") // it is done
	if after := s.left(); len(after) != len(before)+1 || s.Process() != crio {
		t.Errorf("before %v, after %v", before, after)
	}
	s.must("mount") // CRI-O runs
	if got := s.mounted(); got != 5 {
		t.Errorf("%d mounts while CRI-O runs", got)
	}
	s.pinned(4)
	s.Stop(syscall.SIGTERM)
	s.must("mount")
	if got := s.mounted(); got != 2 {
		t.Errorf("%d mounts afterwards\n%s", got, s.Do("stores").Out)
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
	s.must("attach", s.stores[4]) // which is in the compacted one
	s.pinned(4)
	s.must("attach", s.stores[5]) // which was made for the last of those that are gone
	s.pinned(5)
	s.runs(5)
	if got := s.mounted(); got != 3 {
		t.Errorf("%d mounts", got)
	}
	if copies := slices.DeleteFunc(s.left(), func(name string) bool {
		return !strings.HasSuffix(name, ".squashfs")
	}); len(copies) != 2 {
		t.Errorf("copies: %v", copies)
	}
	s.ends(kept)
}

// What is compacted twice comes to the same bytes: then one of the stores has all already,
// and only the others go.
func TestCompactToAStoreThatIsThere(t *testing.T) {
	s := ship(t, 3)
	compact := func() {
		t.Helper()
		s.must("attach", s.stores[1])
		s.must("attach", s.stores[2])
		s.must("compact")
		s.Stop(syscall.SIGTERM)
		s.must("mount")
		if got := s.mounted(); got != 2 {
			t.Errorf("%d mounts", got)
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

// The appliance's own store can be compacted too: what comes of it stands on nothing.
func TestCompactAll(t *testing.T) {
	s := ship(t, 2)
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

// Somebody starts a container of what the compacted store leaves out: the stores stay.
func TestCompactionIsOvertaken(t *testing.T) {
	s := ship(t, 5)
	for n := 1; n < 5; n++ {
		s.must("attach", s.stores[n])
	}
	s.must("compact")
	of2 := s.waits(s.pins[2][2]) // of no release that is kept, and of no container before
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
		t.Errorf("%d mounts", got)
	}
}

// A compaction lets others go first.
func TestCompactionYields(t *testing.T) {
	s := ship(t, 3)
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
		t.Error("its niceness was never 19")
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
