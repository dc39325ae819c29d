package stores_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
)

// Commands and CRI-O are killed at random moments. The next command completes or undoes what the
// killed one began: nothing stays mounted or partly copied that is not in the state, and CRI-O's
// main store is unchanged. The units install the program of the current release, and the node keeps those of the
// releases that it keeps.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	s := newOwnSystem(t, 3, "v1.20.4", "v1.20.5")
	s.mustRun("firstboot")
	container := s.startContainer(s.pins[0][1])
	s.mustRun("attach", s.stores[1])
	commands := [][]string{
		{"attach", s.stores[2]}, {"attach", s.stores[1]}, {"rollback"}, {"detach"}, {"detach", "2"},
		{"attach", s.stores[2], "--keep-sets"}, {"compact"}, {"compact"},
	}
	k, kills := fixtures.NewKiller(t), fixtures.Soak(t, 15)
	for i := 0; k.Kills() < kills || len(k.Killed) < 5; i++ { // of attach, rollback, detach, compact and mount
		command := commands[k.Intn(len(commands))]
		k.Kill(command[0], s.Pinbox(command[0], command[1:]...))
		if i%8 == 3 {
			s.Stop(syscall.SIGKILL)
			k.Kill("mount", s.Pinbox("mount")) // replaces stores by a compacted one
			s.Do("mount")
			s.Start()
		}
		if i%4 == 0 {
			s.checkConsistency(command)
		}
		if t.Failed() {
			t.Fatalf("after %v, the last of %v", k.Killed, command)
		}
	}
	t.Logf("killed: %v, ended: %d", k.Killed, k.Ended)
	s.mustRun("attach", s.stores[1])
	s.mustRun("attach", s.stores[2])
	s.wantPinned(2)
	s.checkContainers(2)
	s.checkContainer(0)
	s.State(container, criapi.ContainerState_CONTAINER_RUNNING)
	s.stopContainer(container)
}

// checkConsistency makes a pass, and checks that state, files, mounts and sets agree.
func (s *testSystem) checkConsistency(last []string) {
	s.t.Helper()
	s.waitForLock()
	s.mustRun("firstboot")
	state, err := stores.ReadState(filepath.Join(s.Root, "var/lib/pinbox/stores.d"))
	if err != nil {
		s.t.Fatal(err)
	}
	want := []string{"state.json", "state.json.copy", "worker.yaml"}
	for _, o := range state.Stores {
		if o.Path == "" { // it was copied
			want = append(want, o.ID.Encoded()+".squashfs")
		}
	}
	if state.Compaction != nil { // may equal one of the stores
		want = append(want, state.Compaction.Store.ID.Encoded()+".squashfs")
	}
	slices.Sort(want)
	left := slices.Sorted(slices.Values(s.pinboxFiles()))
	if !slices.Equal(left, slices.Compact(want)) {
		s.t.Errorf("after %v: got the files %v, want %v", last, left, want)
	}
	for _, name := range left {
		if !strings.HasSuffix(name, ".squashfs") {
			continue
		}
		if sum := fixtures.Run(s.t, "sha256sum", filepath.Join(s.Root, "var/lib/pinbox/stores.d",
			name)); sum[:64] != name[:64] {
			s.t.Errorf("after %v: %s: got the digest %s, want the one in its name", last, name, sum[:64])
		}
	}
	s.checkPrograms(last, state)
	if s.countMounts() != 1+len(state.Stores) {
		s.t.Errorf("after %v: got %d mounts, want %d", last, s.countMounts(), 1+len(state.Stores))
	}
	set, err := os.ReadFile(filepath.Join(s.Sets(), "worker.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	release := slices.IndexFunc(s.pins, func(pins []string) bool { return strings.Contains(string(set), pins[1]) })
	if release < 0 {
		s.t.Fatalf("after %v: the set is of no release\n%s", last, set)
	}
	s.wantPinned(release)
}

// waitForLock waits for the programs that a killed pinbox-node has started, such as mount. They hold its lock until
// they end, and a pass leaves the stores to whoever holds it.
func (s *testSystem) waitForLock() {
	s.t.Helper()
	f, err := os.Open(filepath.Join(s.Root, "var/lib/pinbox/stores.d/.lock"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for _, how := range []int{syscall.LOCK_EX, syscall.LOCK_UN} {
		if err := syscall.Flock(int(f.Fd()), how); err != nil {
			s.t.Fatal(err)
		}
	}
}

// checkPrograms checks that the programs of the releases are intact, and that the one of the current release is named.
func (s *testSystem) checkPrograms(last []string, state stores.State) {
	s.t.Helper()
	dir, want, got := filepath.Join(s.Root, "var/lib/pinbox/programs"), map[string]string{}, map[string]string{}
	for _, r := range state.Releases {
		if r.Program == nil {
			continue
		}
		sum := r.Program.Digest.Encoded()
		want[sum] = sum
		if r.ID == state.Current {
			want["current"] = sum
		}
	}
	entries, _ := os.ReadDir(dir) // none if no release brought a program
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			s.t.Fatal(err)
		}
		if got[e.Name()] = strings.TrimSpace(string(content)); e.Name() != "current" {
			got[e.Name()] = digest.FromBytes(content).Encoded()
		}
	}
	if !maps.Equal(got, want) {
		s.t.Errorf("after %v: got the programs %v, want %v", last, got, want)
	}
}
