package builder_test

import (
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// After a power cut, the output of a finished build is on the disk.
func TestPowerCutAfterABuild(t *testing.T) {
	_, pins := fixtures.Samples(t)
	for _, name := range []format.Name{format.Squashfs, format.Dir} {
		t.Run(string(name), func(t *testing.T) {
			disk := fixtures.NewDisk(t, 256<<20)
			o := options(t, sample.SetNamed("s", pins.Mixed))
			o.Appliance.Spec.Store.Format = name
			o.Out = filepath.Join(disk.Dir, "out")
			appliance.Build(t, o)
			if _, err := verify.Release(t.Context(), filepath.Join(disk.Cut(t), "out"), verify.Options{}); err != nil {
				t.Errorf("after a power cut: got %v, want a folder without faults", err)
			}
		})
	}
}
