package stores_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
)

// Four deltas are attached while a container of the first release runs, without a registry and
// without a restart of CRI-O. After each one its images are listed, found by both digests,
// pinned, and run.
func TestFourDeltas(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 5)
	s.mustRun("firstboot")
	s.wantPinned(0)
	old, crio := s.startContainer(s.pins[0][1]), s.Process()
	for n := 1; n < 5; n++ {
		result := s.mustRun("attach", s.stores[n])
		if !strings.Contains(result.Out, "is attached at slot") {
			t.Errorf("attach: got %s, want the slot", result.Out)
		}
		s.wantPinned(n)
		s.checkContainers(n)
		s.checkDigests(n)
	}
	s.checkContainers(0)
	s.State(old, criapi.ContainerState_CONTAINER_RUNNING)
	if s.Process() != crio {
		t.Errorf("got a new process of CRI-O, %d, want %d", s.Process(), crio)
	}
	if got := s.countMounts(); got != 5 {
		t.Errorf("got %d mounts, want 5", got)
	}
	out := s.mustRun("status").Out
	if strings.Count(out, "mounted") != 4 || strings.Count(out, ", current") != 1 ||
		strings.Count(out, ", previous") != 1 {
		t.Errorf("status: got %s, want 4 mounted, 1 current, 1 previous", out)
	}
}

// Stores are detached in two orders with a real CRI-O, each once nothing refers to it. TestDetachInEveryOrder has all.
// The same with a CRI-O that keeps its images on another disk than its containers.
func TestDetachInOrder(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 4)
	s.mustRun("firstboot")
	for _, order := range [][]string{{"1", "2", "3"}, {"3", "1", "2"}} {
		for n := 1; n < 4; n++ {
			s.mustRun("attach", s.stores[n], "--keep-sets")
		}
		attached := 3
		for again := true; again; {
			again = false
			for _, slot := range order {
				n, _ := strconv.Atoi(slot)
				switch result := s.Do("detach", slot); {
				case n > attached: // already detached
				case n == attached: // nothing needs it
					if result.Code != 0 {
						t.Errorf("%v: detach %s: got exit code %d, want 0\n%s", order, slot, result.Code, result.Err)
					}
					attached, again = attached-1, attached > 1
				case result.Code != 3 || !strings.Contains(result.Err, "by the store appliance"):
					t.Errorf("%v: detach %s of %d: got exit code %d, want 3\n%s", order, slot, attached, result.Code, result.Err)
				}
			}
		}
		s.wantPinned(0)
		if got := s.countMounts(); got != 1 {
			t.Fatalf("%v: got %d mounts, want 1", order, got)
		}
	}
	s.detachWithAnImageStore()
}

// detachWithAnImageStore restarts CRI-O with containers and images on two disks: detach looks at both.
func (s *testSystem) detachWithAnImageStore() {
	s.t.Helper()
	s.Stop(syscall.SIGTERM)
	s.Start("--imagestore", filepath.Join(s.t.TempDir(), "images"))
	s.mustRun("attach", s.stores[1], "--keep-sets")
	container := s.startContainer(s.pins[1][2])
	s.wantExit(3, "the container k8s_app", "detach", "1")
	s.stopContainer(container)
	s.mustRun("detach", "1")
}

// checkDigests looks up the images of a release by their pins and by the digests of their manifests.
func (s *testSystem) checkDigests(release int) {
	s.t.Helper()
	lock := s.lock(release)
	for _, img := range lock.Images {
		repository, _, _ := strings.Cut(img.Pin, "@")
		for _, name := range []string{img.Pin, repository + "@" + img.Manifest.String()} {
			r, err := s.Images().ImageStatus(s.t.Context(), &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: name}})
			if err != nil || r.Image == nil {
				s.t.Errorf("%s: got %v, %v, want an image", name, r, err)
				continue
			}
			if !slices.Contains(s.pins[release], img.Pin) || r.Image.Id != img.Config.Encoded() {
				s.t.Errorf("%s: got the image %s, want %s", name, r.Image.Id, img.Config)
			}
		}
	}
}

// Releases are made current and rolled back, and stores are detached, unless a set, a container
// or a later store needs them. The error names what does.
func TestRollbackAndDetach(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 4)
	s.mustRun("firstboot")
	s.wantExit(3, "no previous release", "rollback")
	s.mustRun("attach", s.stores[1])
	s.mustRun("rollback")
	s.wantPinned(0)
	s.checkContainer(1) // still attached
	s.wantDropin(append(s.pins[0], s.pins[1]...))
	s.wantExit(3, "no previous release", "rollback")
	if out := s.mustRun("attach", s.stores[1]).Out; !strings.Contains(out, "was attached before") {
		t.Errorf("got %s, want that it was attached before", out)
	}
	s.wantPinned(1)
	s.mustRun("attach", s.stores[2])
	s.mustRun("attach", s.stores[3])
	s.mustRun("rollback")
	s.wantPinned(2)
	s.mustRun("rollback") // keepPrevious is 1: the next one back is the appliance's own
	s.wantPinned(0)
	s.mustRun("attach", s.stores[2])
	s.wantPinned(2)
	s.wantExit(3, "by the store appliance", "detach", "1") // 2 and 3 need it
	s.wantExit(3, "its sets are current", "detach", "2")
	s.wantExit(3, "no such store", "detach", "5")
	of3 := s.startContainer(s.pins[3][2])
	s.wantExit(3, "the container k8s_app", "detach", "3")
	s.stopContainer(of3)
	s.mustRun("detach", "3")
	s.wantPinned(2)
	s.checkContainer(2)
	s.mustRun("attach", s.stores[1])
	s.wantPinned(1)
	s.mustRun("detach", "2")
	s.wantExit(3, "its sets are current", "detach", "1")
	s.mustRun("attach", s.stores[2], "--keep-sets")
	s.wantPinned(1)
	s.mustRun("rollback")
	s.mustRun("detach") // all that are not in use
	s.mustRun("status") // the next pass removes their names
	s.mustRun("firstboot")
	s.wantPinned(0)
	s.wantDropin(s.pins[0])
	s.checkContainer(0)
	if got := s.countMounts(); got != 1 {
		t.Errorf("got %d mounts, want 1", got)
	}
	if left := s.pinboxFiles(); !slices.Equal(left, []string{"state.json", "state.json.copy", "worker.yaml"}) {
		t.Errorf("got the files %v, want state.json and worker.yaml", left)
	}
}

// A detach without a name keeps the release that a rollback needs. The two deltas have the same
// base here, so that nothing else needs the first.
func TestDetachKeepsThePreviousRelease(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 3)
	s.mustRun("attach", s.stores[1])
	s.mustRun("attach", sharedSeries(t).apart)
	s.wantPinned(2)
	if result := s.Do("detach"); !strings.Contains(result.Out+result.Err, "a rollback needs it") {
		t.Errorf("detach: got %s%s, want that a rollback needs it", result.Out, result.Err)
	}
	if got := s.countMounts(); got != 3 {
		t.Errorf("got %d mounts after detach, want 3", got)
	}
	s.mustRun("rollback")
	s.wantPinned(1)
	s.checkContainer(1)
}

// A user changes a set on the node and adds another. A new release replaces only sets of releases,
// and a rollback restores the changed one.
func TestSetsOfUsers(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	less, own := sample.SetNamed("s", pinOf(0), pinOf(5)), sample.SetNamed("own", pinOf(0))
	write(t, filepath.Join(d.Sets, "s.yaml"), string(less))
	write(t, filepath.Join(d.Sets, "own.yaml"), string(own))
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	sets := func() map[string]string {
		all := map[string]string{}
		names, err := filepath.Glob(filepath.Join(d.Sets, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(name)] = string(text)
		}
		return all
	}
	if got := sets(); got["own.yaml"] != string(own) || got["s.yaml"] == string(less) || len(got) != 2 {
		t.Errorf("after attach: got %v, want own.yaml and the set of the release", got)
	}
	if _, err := d.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sets(); got["own.yaml"] != string(own) || got["s.yaml"] != string(less) || len(got) != 2 {
		t.Errorf("after rollback: got %v, want own.yaml and the changed set", got)
	}
}
