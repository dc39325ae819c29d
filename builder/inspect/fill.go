package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// readFill reads what fills the store of a release with this lock.
func readFill(ctx context.Context, r *release.Release, lock pinset.Lock) (Report, error) {
	c := newCount(lock)
	store, err := r.Store()
	if err != nil {
		return Report{}, err
	}
	if store == nil {
		return c.finish(), nil
	}
	files, err := store.Files()
	if err != nil {
		return Report{}, err
	}
	c.report.Size = store.Size
	if err := c.layers(ctx, files); err != nil {
		return Report{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	return c.finish(), nil
}

// listed is how many of the largest files a report lists.
const listed = 100

// count counts the files of a store.
type count struct {
	report Report
	// owners are the extents of the store.
	owners map[uint64]owner
	// paths are the files of each layer: what they take, by the hash of their paths.
	paths           []map[uint64]int64
	largest, hidden []File
	firstImage      []string // of each layer
}

// owner is who has an extent: an image, or -1 if several have it.
type owner struct {
	image  int
	stored int64
}

func newCount(lock pinset.Lock) *count {
	c := &count{report: Report{ReleaseID: lock.ReleaseID, Platform: lock.Platform, Artifacts: lock.Artifacts}}
	c.owners = map[uint64]owner{}
	c.report.tree, c.report.lock = &Folder{Name: lock.Name}, lock
	numbers := map[string]int{}
	for n, img := range lock.Images {
		i := Image{Pin: img.Pin, Tags: img.Tags, From: img.From}
		parent := -1
		for _, l := range base.Chain(img) {
			number, known := numbers[l.ID]
			if !known {
				number = len(c.report.Layers)
				numbers[l.ID] = number
				c.report.Layers = append(c.report.Layers, Layer{
					DiffID: l.DiffID, Parent: parent, Blob: l.Size, Unpacked: l.UnpackedSize, Elsewhere: true, id: l.ID, image: n,
				})
				c.firstImage = append(c.firstImage, img.Pin)
			}
			layer := &c.report.Layers[number]
			if layer.Images++; layer.image != n {
				layer.image = -1
			}
			i.Layers, i.Blobs = append(i.Layers, number), i.Blobs+l.Size
			parent = number
		}
		c.report.Images = append(c.report.Images, i)
	}
	c.paths = make([]map[uint64]int64, len(c.report.Layers))
	return c
}

// layers counts the files of all layers, lower ones first.
func (c *count) layers(ctx context.Context, image *squashfs.Reader) error {
	for number := range c.report.Layers {
		layer := &c.report.Layers[number]
		root := path.Join(layout.OverlayDir, layer.id, "diff")
		if _, err := image.Lstat(root); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		layer.Elsewhere, layer.Unpacked, c.paths[number] = false, 0, map[uint64]int64{}
		top := c.report.tree.member(c.group(number)).member(layer.DiffID.Encoded()[:12])
		err := squashfs.Walk(ctx, image, root, func(e squashfs.Entry) error {
			c.file(number, top, e)
			return nil
		})
		if err != nil {
			return fmt.Errorf("layer %s: %w", layer.DiffID, err)
		}
		top.prune(c.report.Size / partOfTree)
	}
	return nil
}

// group returns the name of the folder of the tree that has a layer.
func (c *count) group(layer int) string {
	if l := c.report.Layers[layer]; l.Images > 1 {
		return fmt.Sprintf("shared by %d images", l.Images)
	}
	name, digest, _ := strings.Cut(c.firstImage[layer], "@sha256:")
	return fmt.Sprintf("%s@%.7s", name, digest)
}

// file counts a file of a layer.
func (c *count) file(number int, top *Folder, e squashfs.Entry) {
	layer := &c.report.Layers[number]
	f := File{Path: e.Path, Layer: number, Image: c.firstImage[number], Size: e.Size}
	for _, extent := range e.Extents {
		f.Stored += c.extent(extent, layer.image)
	}
	if hash := hashOf(e.Path); e.Whiteout || e.Mode.IsRegular() {
		c.hide(number, f, hash)
		c.paths[number][hash] = f.Stored
	}
	if !e.Mode.IsRegular() {
		return
	}
	layer.Files, layer.Unpacked, layer.Stored = layer.Files+1, layer.Unpacked+e.Size, layer.Stored+f.Stored
	top.add(e.Path, f.Stored)
	c.largest = largest(c.largest, f)
}

// extent counts what is not stored yet, for an image that has it.
func (c *count) extent(e squashfs.Extent, image int) int64 {
	before, known := c.owners[e.Key]
	if !known {
		c.owners[e.Key] = owner{image, e.Stored}
		return e.Stored
	}
	if before.image != image {
		c.owners[e.Key] = owner{-1, before.stored}
	}
	return 0
}

// hide counts the file of a lower layer that a file hides.
func (c *count) hide(number int, f File, hash uint64) {
	for lower := c.report.Layers[number].Parent; lower >= 0; lower = c.report.Layers[lower].Parent {
		if stored, ok := c.paths[lower][hash]; ok {
			f.Layer, f.Stored = lower, stored
			c.report.HiddenStored += stored
			if stored > 0 {
				c.hidden = largest(c.hidden, f)
			}
			return
		}
	}
}

// finish completes the sums.
func (c *count) finish() Report {
	r := &c.report
	for _, o := range c.owners {
		r.Stored += o.stored
		if o.image >= 0 {
			r.Images[o.image].Saving += o.stored
		}
	}
	for i := range r.Images {
		for _, l := range r.Images[i].Layers {
			r.Images[i].Stored += r.Layers[l].Stored
		}
	}
	slices.SortStableFunc(r.Images, func(a, b Image) int {
		return cmp.Or(cmp.Compare(b.Stored, a.Stored), cmp.Compare(b.Blobs, a.Blobs), cmp.Compare(a.Pin, b.Pin))
	})
	r.Largest, r.Hidden = first(c.largest), first(c.hidden)
	r.tree.sum()
	return *r
}

// largest adds a file to a list of which only the largest are of interest.
func largest(all []File, f File) []File {
	if all = append(all, f); len(all) == 2*listed {
		all = first(all)
	}
	return all
}

// first sorts files, and returns those that a report lists.
func first(all []File) []File {
	slices.SortFunc(all, func(a, b File) int {
		return cmp.Or(cmp.Compare(b.Stored, a.Stored), cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Path, b.Path))
	})
	return all[:min(len(all), listed)]
}
