package stores_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/runtime/stores"
)

// A layer refers to the layers below it by their link names. A layer that was pulled, or that
// another program wrote, has another link name, so it cannot be the base of a delta.
func TestBaseIsFoundByLayerAndLink(t *testing.T) {
	for name, c := range map[string]struct {
		base testStore
		want error
	}{
		"layer and link":               {testStore{n: 0}, nil},
		"another link":                 {testStore{n: 0, link: linkOf(7)}, stores.ErrNoBase},
		"another layer":                {testStore{n: 7}, stores.ErrNoBase},
		"another layer under the link": {testStore{n: 7, link: linkOf(0)}, stores.ErrNoBase},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, c.base)
			delta := stores.AttachOptions{Source: testStore{n: 1}.folder(t)}
			if _, err := d.Attach(t.Context(), delta); !errors.Is(err, c.want) {
				t.Errorf("attach: got %v, want %v", err, c.want)
			}
			if c.want == nil {
				d.wantMounted(1)
				return
			}
			d.wantMounted()
			if left, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs")); err != nil || len(left) > 0 {
				t.Errorf("got %v, %v in the folder of stores, want nothing", left, err)
			}
		})
	}
}

// The base may be another additional image store of CRI-O.
func TestBaseOutsideTheSlots(t *testing.T) {
	for link, want := range map[string]error{linkOf(0): nil, linkOf(7): stores.ErrNoBase} {
		t.Run(link, func(t *testing.T) {
			d := newNode(t, testStore{n: 5})
			other := t.TempDir()
			(testStore{n: 0, link: link}).write(t, other)
			d.OtherStores = []string{other}
			delta := stores.AttachOptions{Source: testStore{n: 1}.folder(t)}
			if _, err := d.Attach(t.Context(), delta); !errors.Is(err, want) {
				t.Errorf("attach: got %v, want %v", err, want)
			}
		})
	}
}

// A store that was refused can be attached once its base is mounted.
func TestBaseIsMountedLater(t *testing.T) {
	d := newNode(t, testStore{n: 7})
	_, err := d.Attach(t.Context(), stores.AttachOptions{Source: delta(1).folder(t)})
	var missing *stores.NoBaseError
	if !errors.As(err, &missing) || missing.Resolved() {
		t.Fatalf("got %v, resolved %v, want %v", err, missing != nil, stores.ErrNoBase)
	}
	d.attach(stores.AttachOptions{Source: testStore{n: 0}.folder(t)})
	if !missing.Resolved() {
		t.Errorf("with the base: got %v, want that it is resolved", missing)
	}
}
