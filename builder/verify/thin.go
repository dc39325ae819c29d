package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/thin"
	"github.com/pinbox/pinbox/storage/verity"
)

// Thin describes the recipes of a thin delta.
type Thin struct {
	// StoreSize is the size in bytes of the store that nodes make of it.
	StoreSize int64 `json:"storeSize"`
	// Rebuilt is how many layers were put together with the bases, and compared with their DiffIDs.
	Rebuilt int `json:"rebuilt,omitempty"`
}

// sameRecipes compares the recipes of a thin delta with what delta.json and the lock say.
func (d *storedDelta) sameRecipes(store *release.Store) error {
	recipes, err := thin.Open(base.Thin(store), thin.Limits{})
	if err != nil {
		return err
	}
	want := d.diffIDs()
	got := map[digest.Digest]int64{}
	for _, l := range recipes.Layers() {
		got[l.DiffID] = l.Size
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the store has recipes of %d layers, want those of the %d that %s does not need from a base",
			len(got), len(want), layout.DeltaFile)
	}
	if !slices.Equal(recipes.Reads(), d.Thin.Reads) {
		return fmt.Errorf("the recipes read %d layers of bases, and %s lists %d", len(recipes.Reads()), layout.DeltaFile,
			len(d.Thin.Reads))
	}
	return nil
}

// diffIDs returns the sizes in bytes of the tar streams of the delta's own layers, by their DiffIDs.
func (d *storedDelta) diffIDs() map[digest.Digest]int64 {
	all := map[digest.Digest]int64{}
	for _, img := range d.lock.Images {
		for _, l := range base.Chain(img) {
			if d.own[l.ID] {
				all[l.DiffID] = l.UnpackedSize
			}
		}
	}
	return all
}

// ErrOtherStore says that the store that is made of a thin delta is another one than it says.
var ErrOtherStore = errors.New("the store that is made of the thin delta has another size than it says")

// rebuild replaces thin deltas with the stores that nodes make of them, each when all that it requires is there.
func (c *completion) rebuild(ctx context.Context, hooks progress.Hooks) error {
	if !slices.ContainsFunc(c.stores, stored.isThin) {
		return nil
	}
	tmp, err := environment.TempDir("pinbox-thin-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // files in it have no name
	var there []stored
	var stores []*release.Store // of them
	for again := true; again; {
		again = false
		for n := range c.stores {
			s := &c.stores[n]
			if slices.ContainsFunc(there, func(t stored) bool { return t.name == s.name }) ||
				s.isThin() && len(s.delta.lacks(there)) > 0 {
				continue
			}
			if s.isThin() {
				if err := c.whole(ctx, s, stores, tmp, hooks); err != nil {
					return err
				}
			}
			stores = append(stores, s.Store)
			there, again = append(there, *s), true
		}
	}
	if len(there) < len(c.stores) {
		return fmt.Errorf("%w: a thin delta among the bases needs it", ErrMissing)
	}
	if c.delta.Thin != nil {
		c.rebuilt = len(c.delta.diffIDs())
	}
	return nil
}

func (s stored) isThin() bool { return s.delta != nil && s.delta.Thin != nil }

// whole makes the store of a thin delta as a node does, of the stores that are there.
func (c *completion) whole(
	ctx context.Context, s *stored, there []*release.Store, tmp string, hooks progress.Hooks,
) error {
	bytes := int64(0)
	for _, size := range s.delta.diffIDs() {
		bytes += size
	}
	hooks.Begin("rebuild layers", bytes)
	whole, err := base.Rebuild(ctx, s.Store, there, tmp, hooks.Add)
	if err != nil {
		return err
	}
	s.Store, c.opened = whole, append(c.opened, whole)
	if size := verity.Size(whole.Size); size != s.delta.Thin.StoreSize {
		return fmt.Errorf("%s: %w: %d bytes, want %d", s.name, ErrOtherStore, size, s.delta.Thin.StoreSize)
	}
	return nil
}

func (c *completion) close() {
	for _, s := range c.opened {
		_ = s.Close() // it was only read, or has no name
	}
}
