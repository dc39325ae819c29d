package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
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
	owners          map[uint64]owner
	largest, hidden []File
	seed            maphash.Seed // of the hashes of paths: a store has half a million of them
}

// owner is who has an extent: an image, or -1 if several have it.
type owner struct {
	image  int
	stored int64
}

func newCount(lock pinset.Lock) *count {
	c := &count{report: Report{ReleaseID: lock.ReleaseID, Platform: lock.Platform, Artifacts: lock.Artifacts}}
	c.owners, c.seed = map[uint64]owner{}, maphash.MakeSeed()
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
					first: img.Pin,
				})
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
		layer.Elsewhere, layer.Unpacked, layer.paths = false, 0, map[uint64]int64{}
		top := c.report.tree.member(layer.group()).member(layer.DiffID.Encoded()[:12])
		err := squashfs.Walk(ctx, image, root, func(e squashfs.Entry) error {
			c.file(number, top, e)
			return nil
		})
		if err != nil {
			return fmt.Errorf("layer %s: %w", layer.DiffID, err)
		}
		top.sum()
		top.prune(c.report.Size / partOfTree)
	}
	return nil
}

// group returns the name of the folder of the tree that has a layer.
func (l *Layer) group() string {
	if l.Images > 1 {
		return fmt.Sprintf("shared by %d images", l.Images)
	}
	name, digest, _ := strings.Cut(l.first, "@sha256:")
	return fmt.Sprintf("%s@%.7s", name, digest)
}

// file counts a file of a layer.
func (c *count) file(number int, top *Folder, e squashfs.Entry) {
	layer := &c.report.Layers[number]
	f := File{Path: e.Path, Layer: number, Image: layer.first, Size: e.Size}
	for _, extent := range e.Extents {
		f.Stored += c.extent(extent, layer.image)
	}
	if hash := maphash.String(c.seed, e.Path); e.Whiteout || e.Mode.IsRegular() {
		c.hide(layer.Parent, f, hash)
		layer.paths[hash] = f.Stored
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
func (c *count) hide(lower int, f File, hash uint64) {
	for ; lower >= 0; lower = c.report.Layers[lower].Parent {
		if stored, ok := c.report.Layers[lower].paths[hash]; ok {
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

// maxMembers is how many members of a folder the tree keeps; the others are summed up, and so are those that take
// less than a part of the store. Nobody sees them on a screen.
const (
	maxMembers = 16
	partOfTree = 4000
)

// member returns a member, and makes it if there is none.
func (f *Folder) member(name string) *Folder {
	if f.byName == nil {
		f.byName = map[string]*Folder{}
	}
	m := f.byName[name]
	if m == nil {
		m = &Folder{Name: name}
		f.byName[name], f.Members = m, append(f.Members, m)
	}
	return m
}

// add adds a file.
func (f *Folder) add(name string, stored int64) {
	if stored == 0 {
		return
	}
	for part := range strings.SplitSeq(name, "/") {
		f = f.member(part)
	}
	f.Stored, f.Kind = f.Stored+stored, kindOf(name)
}

// prune keeps only the largest members of a folder that is summed up, down to the files, of at least so many bytes.
func (f *Folder) prune(least int64) {
	f.byName = nil
	keep := 0
	for keep < min(len(f.Members), maxMembers) && f.Members[keep].Stored >= least {
		keep++
	}
	if len(f.Members) > keep+1 {
		others := &Folder{Name: fmt.Sprintf("%d others", len(f.Members)-keep), Kind: "other"}
		for _, m := range f.Members[keep:] {
			others.Stored += m.Stored
		}
		f.Members = append(f.Members[:keep:keep], others)
	}
	for _, m := range f.Members {
		for len(m.Members) == 1 && len(m.Members[0].Members) > 0 { // usr/share, if usr has nothing else
			m.Name, m.Members = m.Name+"/"+m.Members[0].Name, m.Members[0].Members
		}
		m.prune(least)
	}
}

// sum sums up the folder, and sorts its members.
func (f *Folder) sum() {
	if len(f.Members) == 0 {
		return
	}
	f.Stored = 0
	for _, m := range f.Members {
		m.sum()
		f.Stored += m.Stored
	}
	slices.SortFunc(f.Members, func(a, b *Folder) int {
		return cmp.Or(cmp.Compare(b.Stored, a.Stored), strings.Compare(a.Name, b.Name))
	})
}

// kinds of files by the endings of their names.
var kinds = map[string]string{
	".so": "program", ".a": "program", ".o": "program", ".jar": "java", ".class": "java",
	".py": "script", ".pyc": "script", ".js": "script", ".rb": "script", ".pl": "script",
	".pm": "script", ".sh": "script", ".html": "text", ".gz": "text", ".md": "text", ".txt": "text",
	".mo": "text", ".h": "text", ".json": "data", ".xml": "data", ".yaml": "data", ".db": "data",
	".sqlite": "data", ".dat": "data", ".tar": "data", ".zip": "data", ".whl": "data",
}

// kindOf says what a file is, by its name: program, java, script, text, data or other.
func kindOf(name string) string {
	if kind := kinds[strings.ToLower(path.Ext(name))]; kind != "" {
		return kind
	}
	dir, file := path.Split(name)
	switch {
	case strings.Contains(file, ".so."), strings.HasSuffix(dir, "bin/"), strings.Contains(dir, "libexec/"):
		return "program"
	case strings.Contains(dir, "/doc/"), strings.Contains(dir, "/man/"), strings.Contains(dir, "/locale/"):
		return "text"
	case strings.HasPrefix(dir, "var/lib/"):
		return "data"
	}
	return "other"
}
