package stores

import (
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// A store belongs to the appliance of a delta by its name, or as a base: by its lock or its digest.
func TestIsRelease(t *testing.T) {
	const lock = "the lock"
	id, other := digest.FromString("store"), digest.FromString("other")
	based := func(b pinset.Base) pinset.Delta { return pinset.Delta{Name: "other", Bases: []pinset.Base{b}} }
	for name, test := range map[string]struct {
		store Store
		delta pinset.Delta
		want  bool
	}{
		"of its name":           {Store{Name: "small"}, pinset.Delta{Name: "small"}, true},
		"both without a name":   {Store{}, pinset.Delta{}, false},
		"of another name":       {Store{Name: "small"}, pinset.Delta{Name: "other"}, false},
		"a base by its lock":    {Store{ID: id}, based(pinset.Base{Lock: digest.FromString(lock)}), true},
		"a base by its digest":  {Store{ID: id}, based(pinset.Base{Lock: other, Store: id}), true},
		"another base":          {Store{ID: id}, based(pinset.Base{Lock: other, Store: other}), false},
		"a base without digest": {Store{}, based(pinset.Base{Lock: other}), false},
	} {
		t.Run(name, func(t *testing.T) {
			slot := filepath.Join(t.TempDir(), "1")
			writeFile(t, filepath.Join(slot, layout.OwnLock), lock)
			test.store.Slot = "1"
			n := naming{slots: slots{all: []string{slot}}, stores: []Store{{ID: id, Name: "small", Slot: "2"}, test.store}}
			if got := n.isRelease(slot, test.delta); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
