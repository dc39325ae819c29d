package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Contents returns what the stores of a node that pinbox made and that are mounted have: the layers that a delta may
// need. A store that cannot be read is left out, and the error says which.
func Contents(m Manager) ([]pinset.StoreContent, error) {
	state, err := ReadState(m.Dir)
	if err != nil {
		return nil, err
	}
	mounted, err := mount.ReadTable()
	if err != nil {
		return nil, err
	}
	current := digest.Digest("") // the appliance's own store
	if r := state.release(state.Current); r != nil {
		current = r.Store
	}
	slots := m.tools().slots
	var all []pinset.StoreContent
	var errs []error
	for _, root := range slices.Concat(slots.mountedExcept(Store{}, mounted), slots.others) {
		id, own := m.OwnStore, len(m.Slots) > 0 && root == m.Slots[0]
		if i := slices.IndexFunc(state.Stores, func(s Store) bool { return slots.path(s) == root }); i >= 0 {
			id, own = state.Stores[i].ID, false
		} else if !own {
			id = ""
		}
		c, err := contentOf(root)
		switch {
		case errors.Is(err, fs.ErrNotExist) && slices.Contains(slots.others, root): // a store of another program
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", root, err))
			continue
		}
		c.Store, c.Current = id, own && current == "" || id != "" && id == current
		all = append(all, c)
	}
	return all, errors.Join(errs...)
}

// contentOf reads the content of a store: the layers of its records, with what its lock knows of them.
func contentOf(root string) (c pinset.StoreContent, err error) {
	documents := layout.Open(os.DirFS(root))
	lock, err := documents.Lock()
	if err != nil {
		return c, notStore(err)
	}
	c = pinset.StoreContent{
		Base: pinset.Base{Lock: lockDigest(root)}, ReleaseID: lock.ReleaseID, Platform: lock.Platform, Wish: lock.Wish(),
		Program: lock.Program, Layers: []pinset.StoredLayer{},
	}
	for _, a := range lock.Artifacts {
		c.Artifacts = append(c.Artifacts, a.Pin)
	}
	slices.Sort(c.Artifacts)
	known := map[string]pinset.StoredLayer{}
	for _, img := range lock.Images {
		id := ""
		for _, l := range img.Layers {
			id = layout.LayerID(id, l.DiffID)
			known[id] = pinset.StoredLayer{
				ID: id, UnpackedSize: l.UnpackedSize, Inodes: l.Inodes, RootAttributes: l.RootAttributes,
			}
		}
	}
	has := map[string]pinset.StoredLayer{}
	err = documents.Layers(func(l layout.Layer) error {
		s, ok := known[l.ID]
		if !ok { // of a compacted store, whose lock is that of one release
			s = pinset.StoredLayer{ID: l.ID, UnpackedSize: l.UncompressedSize}
		}
		has[l.ID] = s
		return nil
	})
	for _, id := range slices.Sorted(maps.Keys(has)) {
		c.Layers = append(c.Layers, has[id])
	}
	return c, notStore(err)
}
