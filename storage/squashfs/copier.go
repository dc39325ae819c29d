package squashfs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// ErrIncompatible says that an image cannot take files of another as they are packed.
var ErrIncompatible = errors.New("it has another block size or compression")

// Copier takes trees of a finished image into one that is being written, with the
// blocks of their files as they are packed. Only blocks that a tree has come along;
// those that several trees have come once. It holds the places of files and a few
// blocks of the image, and one tree at a time.
//
// A finished image has no sums of its blocks: whoever has it has compared it with its
// own. What cannot be read is a *Damage when the image is written.
type Copier struct {
	w      *Writer
	r      *Reader
	src    File
	places map[uint64]place  // of runs of blocks, by where they start
	moved  map[uint32]uint32 // numbers of blocks of short files
}

// place of a run of blocks in the new image.
type place struct{ start, size uint64 }

// borrowed is closed by who opened it.
type borrowed struct{ io.ReaderAt }

func (*borrowed) Close() error { return nil }

// NewCopier begins to take trees of an image, which the caller closes after this one
// was written. It is ErrIncompatible if the two are not packed alike.
func (w *Writer) NewCopier(r *Reader) (*Copier, error) {
	if opts := r.Options(); opts.Compression != w.opts.Compression || opts.BlockSize != w.opts.BlockSize {
		return nil, fmt.Errorf("%w: %s and %d bytes, not %s and %d bytes", ErrIncompatible, opts.Compression, opts.BlockSize,
			w.opts.Compression, w.opts.BlockSize)
	}
	return &Copier{w: w, r: r, src: &borrowed{r.src}, places: map[uint64]place{}, moved: map[uint32]uint32{}}, nil
}

// Copy gives what stands under a path of the image, for the tree that is being
// written. Files of several names are one as far as all their names are in it.
func (t *Copier) Copy(name string) (*Inode, error) {
	n, err := t.r.walk("read", name)
	if err != nil {
		return nil, err
	}
	l := newLoader(t.r)
	root, err := l.load(n, 0)
	if err == nil {
		err = t.take(l.contents)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return root, nil
}

// take gives contents their places in the new image.
func (t *Copier) take(contents []*Content) error {
	fragments, err := t.newFragments(contents)
	if err != nil {
		return err
	}
	sizes, err := t.newRuns(contents, fragments)
	if err != nil {
		return err
	}
	t.copyBlocks(sizes)
	for _, number := range slices.Sorted(maps.Keys(fragments)) {
		f := fragments[number]
		t.moved[number] = uint32(len(t.w.fragments))
		t.w.fragments = append(t.w.fragments, fragment{Start: t.places[f.Start].start, Word: f.Word})
	}
	t.move(contents)
	return nil
}

// newFragments are the blocks of short files that contents are the first to have.
func (t *Copier) newFragments(contents []*Content) (map[uint32]fragment, error) {
	fragments := map[uint32]fragment{}
	for _, c := range contents {
		_, old := t.moved[c.fragment]
		_, known := fragments[c.fragment]
		if old || known || c.fragment == noFragment {
			continue
		}
		f, err := t.r.fragmentEntry(c.fragment)
		if err != nil {
			return nil, err
		}
		if size := f.Word &^ uncompressedBlock; size == 0 || size > t.r.sb.BlockSize {
			return nil, damaged("%d bytes of short files at %d", size, f.Start)
		}
		fragments[c.fragment] = f
	}
	return fragments, nil
}

// newRuns are the runs of blocks that are not in the new image: their sizes in bytes,
// by where they start. One may be the beginning of another.
func (t *Copier) newRuns(contents []*Content, fragments map[uint32]fragment) (map[uint64]uint64, error) {
	sizes := map[uint64]uint64{}
	want := func(start, size uint64) error {
		if start < superblockSize || start > t.r.sb.InodeTable || size > t.r.sb.InodeTable-start {
			return damaged("%d bytes of files at %d", size, start)
		}
		if size > t.places[start].size {
			sizes[start] = max(sizes[start], size)
		}
		return nil
	}
	for _, c := range contents {
		if size := c.packedSize(); size == 0 {
			c.start = 0 // of a file that has no blocks it means nothing
		} else if err := want(c.start, size); err != nil {
			return nil, err
		}
	}
	for _, f := range fragments {
		if err := want(f.Start, uint64(f.Word&^uncompressedBlock)); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// copyBlocks makes room for runs of blocks in the order in which they stand in the
// source, so that most can be read at one go.
func (t *Copier) copyBlocks(sizes map[uint64]uint64) {
	for _, start := range slices.Sorted(maps.Keys(sizes)) {
		size := sizes[start]
		t.places[start] = place{start: t.w.pos, size: size}
		t.w.copyRaw(t.src, int64(start), int64(size))
	}
}

// move tells contents where they are.
func (t *Copier) move(contents []*Content) {
	for _, c := range contents {
		if c.start > 0 {
			c.start = t.places[c.start].start
		}
		if c.fragment != noFragment {
			c.fragment = t.moved[c.fragment]
		}
	}
}

// copyRaw adds a range of a source to the image.
func (w *Writer) copyRaw(src File, from, size int64) {
	w.pos += uint64(size)
	if n := len(w.runs) - 1; n < 0 || w.runs[n].src != src {
		w.runs = append(w.runs, run{src: src})
	}
	r := &w.runs[len(w.runs)-1]
	if n := len(r.parts) - 1; n >= 0 && r.parts[n].from+r.parts[n].size == from {
		r.parts[n].size += size
		return
	}
	r.parts = append(r.parts, part{from: from, size: size, raw: true})
}
