package stores_test

import (
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/root"
)

func TestMain(m *testing.M) {
	if root.Init() { // the library that writes a store of format dir runs this program
		return
	}
	fixtures.Waiting(4) // for CRI-O, containers and disks
	// A sixth of the time went into collections of garbage, here and in the short commands, CRI-O and runc that tests
	// start: they have it too.
	if os.Getenv("GOGC") == "" {
		_ = os.Setenv("GOGC", strconv.Itoa(collectedAt)) // a valid name
		debug.SetGCPercent(collectedAt)
	}
	fixtures.Main(m)
}

// collectedAt is the GOGC of tests: in percent, by how much the heap grows until its garbage is collected.
const collectedAt = 400

// The appliance's own store is a folder, and the node keeps only its release and the current one. Its later releases
// are whole stores: a folder cannot be the base of a delta.
func TestStoresOverAFolder(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	s := &testSystem{t: t}
	var err error
	if s.pins, err = registry.PushSeries(t.Context(), testProgram(t), 3); err != nil {
		t.Fatal(err)
	}
	base := appliance.Options(t, sample.SetNamed("worker", s.pins[0]...))
	base.Appliance.Spec.Store.Format = format.Dir
	base.Appliance.Spec.Node.KeepPrevious = new(int)
	s.Node = appliance.Boot(t, base, s.pins[0][0])
	s.stores = []string{base.Out}
	for _, pins := range s.pins[1:] {
		next := appliance.Options(t, sample.SetNamed("worker", pins...))
		appliance.Build(t, next)
		s.stores = append(s.stores, next.Out)
	}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.mustRun("attach", s.stores[1])
	s.wantPinned(1)
	s.checkContainers(1)
	s.mustRun("attach", s.stores[2])
	s.checkContainers(2)
	s.mustRun("rollback") // to the appliance's own release: keepPrevious is 0
	s.wantPinned(0)
	s.mustRun("detach")
	if got := s.countMounts(); got != 1 {
		t.Errorf("got %d mounts, want that of the store whose layers the pods have", got)
	}
	s.checkContainers(0)
}
