package stores_test

import (
	"path/filepath"
	"strings"
	"sync"
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
	thinSeries
}

// thinSeries are the stores of rebuilt releases.
type thinSeries struct {
	series
	// full are the folders of stores with all layers of the releases, except the last one.
	full []string
	// thin are the folders of thin deltas, by their releases; the first release has none. That of the fourth is for nodes
	// with the second or the third, and each other one for nodes with the release before it.
	thin []string
	// whole are the folders of other deltas, by those of thin ones.
	whole map[string]string
}

// newThinSystem makes a node with the first release, without a registry. Its stores are shared: a test changes copies.
func newThinSystem(t *testing.T) *thinSystem {
	t.Helper()
	all := sharedThinSeries(t)
	s := &testSystem{Node: appliance.Node(t, all.base), t: t, pins: all.pins, stores: all.stores}
	s.Start()
	return &thinSystem{s, all}
}

var makeThinSeries, sharedThinOnes = sync.Once{}, thinSeries{}

// sharedThinSeries builds five releases. Then their registry is gone.
func sharedThinSeries(t *testing.T) thinSeries {
	t.Helper()
	testProgram(t)
	makeThinSeries.Do(func() {
		l := fixtures.Lasting{TB: t}
		made, registry, _ := newSeries(l, (*sample.Registry).PushRebuilt, 5)
		all := thinSeries{made, []string{made.base.Out}, []string{""}, map[string]string{}}
		for _, pins := range all.pins[1:4] {
			o := releaseOptions(l, pins)
			o.Appliance.Spec.Node.Store.VolumeLabel = "PINBOX" // it can be on a medium
			appliance.Build(l, o)
			all.full = append(all.full, o.Out)
		}
		for release, bases := range [][]string{
			1: {all.full[0]}, 2: {all.full[1]}, 3: {all.full[1], all.full[2]}, 4: {all.full[3]},
		} {
			if release > 0 {
				all.buildThin(l, release, bases...)
			}
		}
		if err := registry.Close(); err != nil {
			t.Fatal(err)
		}
		sharedThinOnes = all
	})
	if sharedThinOnes.thin == nil {
		t.Fatal("the releases could not be built: see the first test that failed")
	}
	return sharedThinOnes
}

// buildThin builds the thin delta of a release for nodes with each of the bases, and the other delta for them.
func (s *thinSeries) buildThin(t testing.TB, release int, bases ...string) {
	t.Helper()
	var folders []string
	for _, thin := range []bool{true, false} {
		o := releaseOptions(t, s.pins[release])
		o.From, o.Thin = bases, thin
		if _, err := builder.Delta(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, o.Out)
	}
	s.thin = append(s.thin, folders[0])
	s.whole[folders[0]] = folders[1]
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
	t.Parallel()
	s := newThinSystem(t)
	first, second, third, fourth := s.thin[1], s.thin[2], s.thin[3], s.thin[4]
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
	s.checkContainers(2)
	s.checkContainer(0)
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
	s.checkContainers(4)
	s.wantStore(fourth)
	s.checkConsistency([]string{"attach"})
}

// wantRelease checks that the images of a release are pinned, and a container of one: [thinSystem.wantStore] checks
// every byte of the others.
func (s *thinSystem) wantRelease(n int) {
	s.t.Helper()
	s.wantPinned(n)
	s.checkContainer(n)
}
