package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/thin"
)

// A content that is damaged in one store is read from another one that has its layer. If it is damaged in all of them,
// the message names one with the layer and the path, the others, and the image.
func TestThinDeltaOverADamagedBase(t *testing.T) {
	base, delta := thinPair(t, 300_000)
	pin := appliance.Lock(t, base).Images[0].Pin
	o := appliance.Options(t, sample.SetNamed("other", pin))
	o.Appliance.Spec.Store.Compression = squashfs.None
	appliance.Build(t, o)
	for name, c := range map[string]struct{ first, second string }{
		"in the first":  {"data/stays", ""},
		"in the second": {"", "data/changed"},
		"in one each":   {"data/stays", "data/removed"}, // which is not needed
		"in both":       {"data/changed", "data/stays"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(base, layout.StoreFile)
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			defer os.WriteFile(file, whole, 0o644)
			m := newManager(t, base, "50m")
			attach(t, m, stores.AttachOptions{Source: o.Out})
			for slot, file := range []string{c.first, c.second} {
				if file != "" {
					inStore(t, m.Slots[slot], file)
				}
			}
			_, err = m.Attach(t.Context(), stores.AttachOptions{Source: delta})
			if name != "in both" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				wantMounted(t, m, 2)
				return
			}
			var damage *thin.BaseError
			if !errors.As(err, &damage) || len(damage.Others) != 1 || !strings.Contains(err.Error(), "image "+pin[:20]) {
				t.Errorf("got %v, want a %T with another store and the image", err, damage)
			}
			wantMounted(t, m, 1)
		})
	}
}
