package stores_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/runtime/stores"
)

// A layer refers to those below it by their links. One that was pulled, or that another
// program has written, has another link, so a delta cannot be mounted over it.
func TestBaseIsFoundByLayerAndLink(t *testing.T) {
	for name, c := range map[string]struct {
		base small
		want error
	}{
		"layer and link":               {small{n: 0}, nil},
		"another link":                 {small{n: 0, link: linkOf(7)}, stores.ErrNoBase},
		"another layer":                {small{n: 7}, stores.ErrNoBase},
		"another layer under the link": {small{n: 7, link: linkOf(0)}, stores.ErrNoBase},
	} {
		t.Run(name, func(t *testing.T) {
			d := sit(t, c.base)
			delta := stores.AttachOptions{Source: small{n: 1, on: []int{0}}.folder(t)}
			if _, err := d.Attach(t.Context(), delta); !errors.Is(err, c.want) {
				t.Errorf("attach: got %v, want %v", err, c.want)
			}
			if c.want == nil {
				d.has(1)
				return
			}
			d.has()
			if left, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs")); err != nil || len(left) > 0 {
				t.Errorf("got %v, %v in the folder of stores, want nothing", left, err)
			}
		})
	}
}

// The base may be a folder that CRI-O reads beside the slots.
func TestBaseBesideTheSlots(t *testing.T) {
	for link, want := range map[string]error{linkOf(0): nil, linkOf(7): stores.ErrNoBase} {
		t.Run(link, func(t *testing.T) {
			d := sit(t, small{n: 5})
			other := t.TempDir()
			for name, content := range (small{n: 0, link: link}).files(t) {
				write(t, filepath.Join(other, name), string(content))
			}
			d.OtherStores = []string{other}
			delta := stores.AttachOptions{Source: small{n: 1, on: []int{0}}.folder(t)}
			if _, err := d.Attach(t.Context(), delta); !errors.Is(err, want) {
				t.Errorf("attach: got %v, want %v", err, want)
			}
		})
	}
}
