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
	t.Parallel()
	s := newSystem(t, 6)
	s.mustRun("firstboot")
	s.wantExit(3, "compaction needs at least two stores", "compact")
	for n := 1; n < 5; n++ {
		s.mustRun("attach", s.stores[n])
	}
	container, crio := s.startContainer(s.pins[1][1]), s.Process()
	before := s.pinboxFiles()
	if out := s.mustRun("compact").Out; !strings.Contains(out, "compacted 4 stores") {
		t.Errorf("got %s, want that 4 stores were compacted", out)
	}
	s.mustRun("compact") // does nothing
	if after := s.pinboxFiles(); len(after) != len(before)+1 || s.Process() != crio {
		t.Errorf("got the files %v, CRI-O %d, want %v and one more, CRI-O %d", after, s.Process(), before, crio)
	}
	s.mustRun("mount") // CRI-O runs
	if got := s.countMounts(); got != 5 {
		t.Errorf("got %d mounts while CRI-O runs, want 5", got)
	}
	s.wantPinned(4)
	s.Stop(syscall.SIGTERM)
	s.mustRun("mount")
	if got := s.countMounts(); got != 2 {
		t.Errorf("got %d mounts afterwards, want 2\n%s", got, s.Do("status").Out)
	}
	s.Start()
	s.State(container, criapi.ContainerState_CONTAINER_RUNNING)
	s.mustRun("firstboot")
	s.wantPinned(4)
	s.checkContainers(4)
	s.checkContainer(0)
	s.mustRun("rollback")
	s.wantPinned(3)
	s.checkContainer(3)
	s.mustRun("attach", s.stores[4]) // which is in the compacted store
	s.wantPinned(4)
	s.mustRun("attach", s.stores[5]) // whose base was replaced
	s.wantPinned(5)
	s.checkContainer(5)
	if got := s.countMounts(); got != 3 {
		t.Errorf("got %d mounts, want 3", got)
	}
	if copies := slices.DeleteFunc(s.pinboxFiles(), func(name string) bool {
		return !strings.HasSuffix(name, ".squashfs")
	}); len(copies) != 2 {
		t.Errorf("got the copies %v, want 2", copies)
	}
	s.stopContainer(container)
}

// A second compaction of the same stores makes the same bytes: then one of the attached stores is
// the compacted one, and only the others are removed. A compaction runs at the lowest priority.
func TestCompactToAnAttachedStore(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 3)
	compact := func() {
		t.Helper()
		s.mustRun("attach", s.stores[1])
		s.mustRun("attach", s.stores[2])
		s.compactAtLowestPriority()
		s.Stop(syscall.SIGTERM)
		s.mustRun("mount")
		if got := s.countMounts(); got != 2 {
			t.Errorf("got %d mounts, want 2", got)
		}
		s.Start()
	}
	compact()
	s.mustRun("attach", s.stores[0], "--keep-sets") // the appliance's own store
	s.mustRun("rollback")
	bare := copyStore(t, s.stores[1]) // whose digest is known, so it is not copied again
	s.mustRun("attach", bare)
	s.wantPinned(1)
	s.mustRun("attach", s.stores[2])
	s.wantPinned(2)
	s.wantExit(3, "compaction needs at least two stores", "compact")
}

// With --all, the compacted store also has the layers of the appliance's own, and needs no other.
func TestCompactAll(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 2)
	s.mustRun("attach", s.stores[1])
	s.mustRun("compact", "--all")
	s.Stop(syscall.SIGTERM)
	s.mustRun("mount")
	s.Run("umount", "/var/lib/pinbox/stores/0")
	s.Start()
	s.mustRun("firstboot")
	s.wantPinned(1)
	s.checkContainers(1)
}

// A container needs an image that the compacted store does not have: the stores stay.
func TestCompactionDiscarded(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 5)
	for n := 1; n < 5; n++ {
		s.mustRun("attach", s.stores[n])
	}
	s.mustRun("compact")
	of2 := s.startContainer(s.pins[2][2]) // of a release that is not kept
	s.mustRun("attach", s.stores[4])
	s.Stop(syscall.SIGTERM)
	s.wantExit(1, "the compacted store lacks something for the container", "mount")
	s.mustRun("mount")
	s.Start()
	s.mustRun("firstboot")
	s.wantPinned(4)
	s.checkContainer(2)
	s.stopContainer(of2)
	if got := s.countMounts(); got != 5 {
		t.Errorf("got %d mounts, want 5", got)
	}
}

// compactAtLowestPriority compacts, and checks the priority of the process.
func (s *testSystem) compactAtLowestPriority() {
	t := s.t
	t.Helper()
	cmd := s.Pinbox("compact")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := make(chan bool)
	go func() {
		for { // until the process has ended; nsenter first executes pinbox-node
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
