package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
)

// withoutSums changes a folder, and removes its sums.
func withoutSums(change func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, folder string) {
		t.Helper()
		change(t, folder)
		if err := os.Remove(filepath.Join(folder, layout.SumsFile)); err != nil {
			t.Fatal(err)
		}
	}
}

// A node with keys attaches a thin delta only if one of them signed it, with or without sums. Before, nothing in it is
// parsed, and nothing of a refused one is left. The store that the node makes of it needs no signature.
func TestSignedThinDelta(t *testing.T) {
	base, delta := thinPair(t, 300_000)
	ours, public := fixtures.Key(t)
	theirs, _ := fixtures.Key(t)
	by := func(key string) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			fixtures.SignStore(t, filepath.Join(folder, layout.ThinStoreFile), key)
		}
	}
	changed := func(t *testing.T, folder string) {
		by(ours)(t, folder)
		changeByte(t, filepath.Join(folder, layout.ThinStoreFile), 5000)
	}
	none := func(*testing.T, string) {}
	for name, c := range map[string]struct {
		change func(t *testing.T, folder string)
		want   error
	}{
		"signed":                       {by(ours), nil},
		"signed, without sums":         {withoutSums(by(ours)), nil},
		"not signed":                   {none, stores.ErrUnsigned},
		"not signed, without sums":     {withoutSums(none), stores.ErrUnsigned},
		"signed by another":            {by(theirs), stores.ErrSignature},
		"signed, and changed":          {withoutSums(changed), stores.ErrSignature},
		"signed, and not as sums have": {changed, stores.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "delta")
			fixtures.Run(t, "cp", "-r", delta, folder)
			c.change(t, folder)
			m := newManager(t, base, "50m")
			fixtures.Run(t, "install", "-D", "-t", m.Keys, public)
			parsed := false
			m.OpenFS = func(e mount.Extent) (stores.FS, error) {
				parsed = true
				return stores.OpenFS(e)
			}
			a, err := m.Attach(t.Context(), stores.AttachOptions{
				Source: folder, Progress: during{stores.Composing, func(stores.Store, int64, int64) { parsed = true }},
			})
			if !errors.Is(err, c.want) || parsed != (c.want == nil) {
				t.Errorf("got %v, parsed %v; want %v, parsed %v", err, parsed, c.want, c.want == nil)
			}
			if c.want != nil {
				wantNothingAttached(t, m)
				return
			}
			wantMounted(t, m, 1)
			again, err := m.Attach(t.Context(), stores.AttachOptions{Source: folder})
			if err != nil || !again.Found || again.Store.ID != a.Store.ID {
				t.Errorf("the second time: got %+v, %v, want that %s is found", again, err, a.Store.ID)
			}
			reboot(t, m)
			if _, err := m.Reconcile(t.Context(), nil); err != nil {
				t.Error(err)
			}
			wantMounted(t, m, 1)
		})
	}
}
