package stores

import (
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// A store belongs to the appliance of another by its name, or as a base: by its lock or its digest.
func TestIsRelease(t *testing.T) {
	const lock = "the lock"
	id, other := digest.FromString("store"), digest.FromString("other")
	small := pinset.ReleaseID{Name: "small"}
	based := func(b pinset.Base) relative { return relative{"other", pinset.Delta{Bases: []pinset.Base{b}}} }
	for name, test := range map[string]struct {
		store Store
		of    relative
		want  bool
	}{
		"of its name":           {Store{ReleaseID: small}, relative{name: "small"}, true},
		"both without a name":   {Store{}, relative{}, false},
		"of another name":       {Store{ReleaseID: small}, relative{name: "other"}, false},
		"a base by its lock":    {Store{ID: id}, based(pinset.Base{Lock: digest.FromString(lock)}), true},
		"a base by its digest":  {Store{ID: id}, based(pinset.Base{Lock: other, Store: id}), true},
		"another base":          {Store{ID: id}, based(pinset.Base{Lock: other, Store: other}), false},
		"a base without digest": {Store{}, based(pinset.Base{Lock: other}), false},
	} {
		t.Run(name, func(t *testing.T) {
			slot := filepath.Join(t.TempDir(), "1")
			writeFile(t, filepath.Join(slot, layout.OwnLock), lock)
			if got := isRelease(slot, test.store, test.of); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
