package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// ErrForeignStore is the error for a store with records that this version does not write, which a
// compaction would lose.
var ErrForeignStore = fault.New(fault.Input, "this version of pinbox cannot compact the store",
	"it was written by a newer pinbox")

// Filter selects the content of a compacted store. The zero value selects all images and the
// layers that they use.
type Filter struct {
	// Image reports whether to keep an image; names are its names in all of the stores. nil keeps
	// all images.
	Image func(id string, names []string) bool
	// Name reports whether an image keeps a name; nil keeps all names.
	Name func(id, name string) bool
	// Layer reports whether to keep a layer; needed is true if an image that is kept uses it. nil
	// keeps the needed layers.
	Layer func(id string, needed bool) bool
	// Files are the names of other files to keep, such as blobs. Each is that of the first store that has it.
	Files []string
}

// Compaction is the plan to write several stores as one: a base or a delta, and the deltas that
// depend on it.
type Compaction struct {
	// Layers are the IDs of the layers to keep, parents first, Dropped those of all others.
	Layers, Dropped []string
	// Needs lists the layers of other stores that the kept layers and images use, sorted.
	Needs []pinset.Need

	stores []*squashfs.Reader
	held   map[string]held
	images Images
	files  []string
}

// held is a layer and the index of the first store that contains it.
type held struct {
	record layout.Layer
	store  int
}

// NewCompaction reads the records of the stores, the oldest first, and selects the layers and
// images to keep.
func NewCompaction(stores []*squashfs.Reader, keep Filter) (*Compaction, error) {
	c := &Compaction{
		Needs: []pinset.Need{}, stores: stores, held: map[string]held{}, images: Images{}, files: keep.Files,
	}
	var ids []string
	for n, store := range stores {
		records, err := readLayers(store)
		if err != nil {
			return nil, fmt.Errorf("store %d of %d: %w", n+1, len(stores), err)
		}
		for _, record := range records {
			if _, ok := c.held[record.ID]; !ok {
				c.held[record.ID] = held{record, n}
				ids = append(ids, record.ID)
			}
		}
	}
	if err := c.mergeImages(keep); err != nil {
		return nil, err
	}
	needed, err := c.images.layers()
	if err != nil {
		return nil, err
	}
	c.choose(ids, needed, keep.Layer)
	return c, nil
}

// choose selects the layers to keep.
func (c *Compaction) choose(ids []string, needed map[string]bool, keep func(string, bool) bool) {
	kept := map[string]bool{}
	for _, id := range ids {
		if keep == nil && needed[id] || keep != nil && keep(id, needed[id]) {
			kept[id] = true
			c.Layers = append(c.Layers, id)
		} else {
			c.Dropped = append(c.Dropped, id)
		}
	}
	c.Layers = c.parentsFirst(c.Layers, kept)
	for _, id := range c.Layers {
		for id != "" { // up to a layer of another store, whose parent is unknown
			needed[id] = true
			id = c.held[id].record.Parent
		}
	}
	for id := range needed {
		if !kept[id] {
			c.Needs = append(c.Needs, pinset.Need{Layer: id, Link: layout.LinkName(id)})
		}
	}
	slices.SortFunc(c.Needs, func(a, b pinset.Need) int { return strings.Compare(a.Layer, b.Layer) })
}

// parentsFirst sorts layers so that parents come first. There are no cycles, since an ID is a
// digest of the parent's.
func (c *Compaction) parentsFirst(ids []string, kept map[string]bool) []string {
	var ordered []string
	placed := map[string]bool{}
	for _, id := range ids {
		from := len(ordered)
		for ; kept[id] && !placed[id]; id = c.held[id].record.Parent {
			placed[id] = true
			ordered = append(ordered, id)
		}
		slices.Reverse(ordered[from:])
	}
	return ordered
}

// mergeImages adds the images of all stores.
func (c *Compaction) mergeImages(keep Filter) error {
	names := map[string][]string{}
	records := make([][]layout.Image, len(c.stores))
	for n, store := range c.stores {
		var err error
		if records[n], err = readImages(store); err != nil {
			return fmt.Errorf("store %d of %d: %w", n+1, len(c.stores), err)
		}
		for _, record := range records[n] {
			names[record.ID] = append(names[record.ID], record.Names...)
		}
	}
	for n, store := range c.stores {
		for _, record := range records[n] {
			if keep.Image != nil && !keep.Image(record.ID, names[record.ID]) {
				continue
			}
			record.Names = slices.DeleteFunc(record.Names, func(name string) bool {
				return keep.Name != nil && !keep.Name(record.ID, name)
			})
			if err := c.images.merge(record, store); err != nil {
				return fmt.Errorf("store %d of %d: image %s: %w", n+1, len(c.stores), record.ID, err)
			}
		}
		records[n] = nil // frees documents that c.images has, too
	}
	return nil
}

// readLayers reads layers.json of a store. Records with fields that pinbox does not write are
// errors.
func readLayers(store *squashfs.Reader) (records []layout.Layer, err error) {
	documents := layout.Open(store)
	documents.Strict = true
	err = documents.Layers(func(l layout.Layer) error {
		if err := audit.CheckLayer(l); err != nil {
			return err
		}
		records = append(records, l)
		return nil
	})
	return records, foreign(err)
}

// readImages reads images.json in the same way.
func readImages(store *squashfs.Reader) (records []layout.Image, err error) {
	documents := layout.Open(store)
	documents.Strict = true
	err = documents.Images(func(i layout.Image) error {
		records = append(records, i)
		return nil
	})
	return records, foreign(err)
}

func foreign(err error) error {
	if errors.Is(err, layout.ErrDocument) || errors.Is(err, audit.ErrInvalid) {
		return fmt.Errorf("%w: %w", ErrForeignStore, err)
	}
	return err
}

// File is a small file of pinbox in a store.
type File struct {
	// Name is its path below the graph root.
	Name    string
	Perm    uint32
	Content []byte
}

// Compose prepares the store. It copies layers in their compressed form; it writes new records,
// documents of images, and files, with the time modTime. Stores with different squashfs options
// are squashfs.ErrIncompatible. It creates an unnamed file in the folder tmp. The caller closes
// the stores, after it closed the result.
func (c *Compaction) Compose(ctx context.Context, files []File, modTime time.Time, tmp string) (*Composed, error) {
	if len(c.stores) == 0 {
		return nil, errors.New("no store to compact")
	}
	fill := func(store *Store, out *squashfs.Writer, _ *squashfs.Compressor) (*squashfs.Inode, error) {
		return c.fill(ctx, store, out, files)
	}
	return composeStore(c.stores[0].Options(), modTime, modTime, tmp, fill)
}

func (c *Compaction) fill(
	ctx context.Context, store *Store, out *squashfs.Writer, files []File,
) (*squashfs.Inode, error) {
	transfers := make([]*squashfs.Copier, len(c.stores))
	for n, from := range c.stores {
		var err error
		if transfers[n], err = out.NewCopier(from); err != nil {
			return nil, fmt.Errorf("store %d of %d: %w", n+1, len(c.stores), err)
		}
	}
	for _, id := range c.Layers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		layer := c.held[id]
		if err := store.moveLayer(transfers[layer.store], layer.record); err != nil {
			return nil, fmt.Errorf("store %d of %d: layer %s: %w", layer.store+1, len(c.stores), id, err)
		}
	}
	for _, name := range c.files {
		if err := c.moveFile(store, transfers, name); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		if err := store.AddFile(file.Name, file.Perm, bytes.NewReader(file.Content)); err != nil {
			return nil, err
		}
	}
	store.images = c.images
	return store.Close()
}

// moveFile adds a file of the first store that has it.
func (c *Compaction) moveFile(store *Store, transfers []*squashfs.Copier, name string) error {
	for n, from := range c.stores {
		if _, err := from.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		file, err := transfers[n].Copy(name)
		if err != nil {
			return fmt.Errorf("store %d of %d: %w", n+1, len(c.stores), err)
		}
		dir, base := store.folder(name)
		dir.Set(base, file)
		return nil
	}
	return &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

// moveLayer adds a layer of another store.
func (s *Store) moveLayer(from *squashfs.Copier, record layout.Layer) error {
	var diff *squashfs.Inode
	for _, part := range []struct {
		dir  *squashfs.Inode
		path string
	}{
		{s.overlay, path.Join(layout.OverlayDir, record.ID)},
		{s.links, path.Join(layout.LinksDir, layout.LinkName(record.ID))},
		{s.layerDir, layout.TarSplitFile(record.ID)},
	} {
		tree, err := from.Copy(part.path)
		if err != nil {
			return err
		}
		if part.dir == s.overlay {
			s.overlay.Set(record.ID, tree)
			diff = tree
		} else {
			part.dir.Add(path.Base(part.path), tree)
		}
	}
	if err := s.layers.add(record); err != nil {
		return err
	}
	if err := s.out.WriteTree(diff); err != nil {
		return err
	}
	s.overlay.Add(record.ID, diff)
	return nil
}
