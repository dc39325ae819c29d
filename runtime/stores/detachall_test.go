package stores_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
)

// All stores are removed with their sets, or none: also if what is used is in two of them, each of which alone could
// be removed.
func TestDetachAll(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: testStore{n: 2}.folder(t)})
	d.attach(stores.AttachOptions{Source: testStore{n: 3, extra: []int{2}}.folder(t)})
	write(t, filepath.Join(d.Sets, "mine.yaml"), "mine")
	d.wanted = append(d.wanted, imageOf(t, 3)) // sets do not count
	used := filepath.Join(d.main, "overlay-layers/layers.json")
	write(t, used, string(records(t, object{"id": idOf("layer", 9), "parent": idOf("layer", 2)})))
	before := fixtures.Tree(t, d.Sets)
	err := d.DetachAll(t.Context(), d.main)
	if !errors.Is(err, stores.ErrInUse) || !strings.Contains(err.Error(), "the layer "+idOf("layer", 9)[:12]) {
		t.Errorf("got %v, want ErrInUse by the layer", err)
	}
	d.wantMounted(2, 3)
	if diff := cmp.Diff(before, fixtures.Tree(t, d.Sets)); diff != "" {
		t.Errorf("sets (-before +after):\n%s", diff)
	}
	if err := os.Remove(used); err != nil {
		t.Fatal(err)
	}
	if err := d.DetachAll(t.Context(), d.main); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no folder of the state", err)
	}
	sets := fixtures.Tree(t, d.Sets)
	if len(sets) != 2 || sets["mine.yaml"] == "" { // and the folder
		t.Errorf("got the sets %v, want the user's alone", sets)
	}
	if err := d.DetachAll(t.Context(), d.main); err != nil {
		t.Errorf("again: got %v, want no error", err)
	}
}
