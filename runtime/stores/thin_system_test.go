package stores_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
)

// thinSystem is a testSystem whose releases are built anew, each on a base with some updates.
type thinSystem struct {
	*testSystem
	// full are the folders of stores with all layers of the releases, except the last one.
	full []string
	// whole are the folders of other deltas, by those of thin ones.
	whole map[string]string
}

// newThinSystem makes a node with the first release.
func newThinSystem(t *testing.T, releases int) (*thinSystem, *sample.Registry) {
	t.Helper()
	s, registry, _ := newSystemOf(t, (*sample.Registry).PushRebuilt, releases)
	all := &thinSystem{s, []string{s.stores[0]}, map[string]string{}}
	for _, pins := range s.pins[1 : releases-1] {
		o := appliance.Options(t, sample.SetNamed("worker", pins...))
		o.Appliance.Spec.Node.Store.VolumeLabel = "PINBOX" // it can be on a medium
		appliance.Build(t, o)
		all.full = append(all.full, o.Out)
	}
	return all, registry
}

// thin builds the thin delta of a release for nodes with each of the bases, and the other delta for them.
func (s *thinSystem) thin(release int, bases ...string) (folder string) {
	s.t.Helper()
	var folders []string
	for _, thin := range []bool{true, false} {
		o := appliance.Options(s.t, sample.SetNamed("worker", s.pins[release]...))
		o.From, o.Thin = bases, thin
		if _, err := builder.Delta(s.t.Context(), o); err != nil {
			s.t.Fatal(err)
		}
		folders = append(folders, o.Out)
	}
	s.whole[folders[0]] = folders[1]
	return folders[0]
}

func thinFile(folder string) string { return filepath.Join(folder, artifact.ThinStoreFile) }

// digestOf returns the SHA-256 of a file.
func digestOf(t *testing.T, file string) string {
	t.Helper()
	return "sha256:" + strings.Fields(fixtures.Run(t, "sha256sum", file))[0]
}

// wantStore checks that the store which was made of a thin delta is that of the other delta for its bases, byte for
// byte.
func (s *thinSystem) wantStore(thin string) {
	s.t.Helper()
	state, err := stores.ReadState(filepath.Join(s.Root, "var/lib/pinbox/stores.d"))
	if err != nil {
		s.t.Fatal(err)
	}
	want := digestOf(s.t, filepath.Join(s.whole[thin], artifact.DeltaStoreFile))
	for _, o := range state.Stores {
		if o.Thin.String() == digestOf(s.t, thinFile(thin)) && o.ID.String() == want {
			return
		}
	}
	s.t.Errorf("got the stores %+v, want %s", state.Stores, want)
}

// Thin deltas of rebuilt releases are attached without a registry, a restart of CRI-O or its notice: from a folder, as
// a file with its digest, and from a medium; over the appliance's store, over another one, over a compacted store, and
// over one that is used in place. What comes out are the stores of ordinary deltas.
func TestThinDeltas(t *testing.T) {
	s, registry := newThinSystem(t, 5)
	first, second := s.thin(1, s.full[0]), s.thin(2, s.full[1])
	third := s.thin(3, s.full[1], s.full[2]) // alternatives: the node has one of them
	fourth := s.thin(4, s.full[3])
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	s.mustRun("firstboot")
	old, crio := s.startContainer(s.pins[0][1]), s.Process()

	out := s.mustRun("attach", first).Out
	if !strings.Contains(out, "was put together from the thin delta") {
		t.Errorf("got %s, want that the store was put together", out)
	}
	s.wantRelease(1)
	s.wantStore(first)
	for _, again := range []string{first, s.whole[first]} { // the other one is the same store
		if out := s.mustRun("attach", again).Out; !strings.Contains(out, "was attached before, at slot 1: nothing was copied") {
			t.Errorf("got %s, want that nothing was done", out)
		}
	}
	alone := filepath.Join(t.TempDir(), "received") // over a link
	fixtures.Run(t, "cp", thinFile(second), alone)
	s.wantExit(3, "the SHA-256 of the store is unknown", "attach", alone)
	s.mustRun("attach", alone, "--digest", digestOf(t, alone))
	s.wantRelease(2)
	s.wantStore(second)
	s.checkContainers(0)
	if s.Process() != crio {
		t.Errorf("got a new process of CRI-O, %d, want %d", s.Process(), crio)
	}
	s.State(old, criapi.ContainerState_CONTAINER_RUNNING)
	s.mustRun("rollback")
	s.wantRelease(1)
	s.mustRun("attach", second)
	s.wantRelease(2)
	s.stopContainer(old)

	s.mustRun("compact")
	s.Stop(syscall.SIGTERM)
	s.mustRun("mount")
	s.Start()
	if out := s.mustRun("attach", second).Out; !strings.Contains(out, "nothing was copied") {
		t.Errorf("got %s, want that the release in the compacted store is known", out)
	}
	s.attachOverOthers(third, fourth)
}

// attachOverOthers attaches the third thin delta from a medium, to a node with a compacted store of the second release,
// and the fourth one over a store of the third release that is used in place.
func (s *thinSystem) attachOverOthers(third, fourth string) {
	s.t.Helper()
	s.mustRun("attach", newLoopDevice(s.t, third))
	s.wantRelease(3)
	s.wantStore(third)
	s.mustRun("rollback")
	s.wantRelease(2)
	s.mustRun("detach") // the store of the third
	if out := s.mustRun("attach", third, "--auto").Out; !strings.Contains(out, "nothing was changed") {
		s.t.Errorf("got %s, want that a thin delta which was detached is not attached by itself", out)
	}
	medium := filepath.Join(s.t.TempDir(), "third.iso")
	if err := artifact.Medium(s.t.Context(), artifact.MediumOptions{Dir: s.full[3], Out: medium}); err != nil {
		s.t.Fatal(err)
	}
	s.mustRun("attach", medium, "--in-place")
	s.mustRun("attach", fourth)
	s.wantRelease(4)
	s.wantStore(fourth)
	s.checkConsistency([]string{"attach"})
}

// wantRelease checks that the images of a release are pinned, and their containers.
func (s *thinSystem) wantRelease(n int) {
	s.t.Helper()
	s.wantPinned(n)
	s.checkContainers(n)
}
