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
	s := &site{t: t}
	var err error
	if s.pins, err = registry.PushSeries(t.Context(), programOf(t), 3); err != nil {
		t.Fatal(err)
	}
	base := appliance.Options(t, sample.SetNamed("worker", s.pins[0]...))
	base.Appliance.Spec.Store.Format = format.Tar
	base.Appliance.Spec.Node.KeepPrevious = new(int)
	s.Node = appliance.Boot(t, base, s.pins[0][0])
	s.stores = []string{base.Out}
	s.deltas(2)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.must("attach", s.stores[1])
	s.pinned(1)
	s.runs(1)
	s.must("attach", s.stores[2])
	s.runs(2)
	s.refused(3, "by the store appliance", "detach", "1")
	s.must("rollback") // to the appliance's own release: keepPrevious is 0
	s.pinned(0)
	s.must("detach")
	if got := s.mounted(); got != 0 {
		t.Errorf("got %d mounts, want 0", got)
	}
	s.runs(0)
}
