package stores_test

import (
	"testing"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// The appliance's own store is a folder, and the node keeps only its release and the current one.
func TestDeltasOverAFolder(t *testing.T) {
	registry, _ := appliance.Registry(t)
	s := &testSystem{t: t}
	var err error
	if s.pins, err = registry.PushSeries(t.Context(), testProgram(t), 3); err != nil {
		t.Fatal(err)
	}
	base := appliance.Options(t, sample.SetNamed("worker", s.pins[0]...))
	base.Appliance.Spec.Store.Format = format.Tar
	base.Appliance.Spec.Node.KeepPrevious = new(int)
	s.Node = appliance.Boot(t, base, s.pins[0][0])
	s.stores = []string{base.Out}
	s.buildDeltas(2)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.mustRun("attach", s.stores[1])
	s.wantPinned(1)
	s.checkContainers(1)
	s.mustRun("attach", s.stores[2])
	s.checkContainers(2)
	s.wantExit(3, "by the store appliance", "detach", "1")
	s.mustRun("rollback") // to the appliance's own release: keepPrevious is 0
	s.wantPinned(0)
	s.mustRun("detach")
	if got := s.countMounts(); got != 0 {
		t.Errorf("got %d mounts, want 0", got)
	}
	s.checkContainers(0)
}
