package squashfs

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrIncompatible reports that compressed blocks of one image cannot be copied to another.
var ErrIncompatible = fault.New(fault.Input, "images differ in block size or compression",
	"only stores with the same compression and block size can be compacted")

// Copier copies trees of an image to the image of a Writer, without decompressing the blocks of
// their files. It copies only blocks that a tree uses, and those that several trees use once. It
// holds the positions of files, a few blocks of the image, and one tree at a time.
//
// An image has no checksums of its blocks: the caller verifies the image as a whole. Blocks that
// cannot be read are a *Damage when the new image is written.
type Copier struct {
	w         *Writer
	r         *Reader
	file      File
	runs      map[uint64]blockRun // in the new image, by their starts in the old one
	fragments map[uint32]uint32   // numbers in the new image, by those in the old one
}

// blockRun is a run of blocks in the new image, in bytes.
type blockRun struct{ start, size uint64 }

// callersFile is a file that its opener closes.
type callersFile struct{ io.ReaderAt }

func (*callersFile) Close() error { return nil }

// NewCopier returns a Copier of an image, whose file the caller closes after the Writer's image was
// written. The error is ErrIncompatible if the images differ in block size or compression.
func (w *Writer) NewCopier(r *Reader) (*Copier, error) {
	if opts := r.Options(); opts.Compression != w.opts.Compression || opts.BlockSize != w.opts.BlockSize {
		return nil, fmt.Errorf("%w: %s with %d bytes, %s with %d bytes", ErrIncompatible, opts.Compression, opts.BlockSize,
			w.opts.Compression, w.opts.BlockSize)
	}
	return &Copier{
		w: w, r: r, file: &callersFile{r.file}, runs: map[uint64]blockRun{}, fragments: map[uint32]uint32{},
	}, nil
}

// Copy returns the tree below a path of the image, for the tree that is being written. Hard links
// between files of this tree are preserved.
func (cp *Copier) Copy(name string) (*Inode, error) {
	n, err := cp.r.walk("read", name)
	if err != nil {
		return nil, err
	}
	l := newLoader(cp.r)
	root, err := l.load(n, 0)
	if err == nil {
		err = cp.add(l.contents)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return root, nil
}

// add adds the blocks of contents to the new image, and updates their positions.
func (cp *Copier) add(contents []*Content) error {
	fragments, err := cp.newFragments(contents)
	if err != nil {
		return err
	}
	sizes, err := cp.newRuns(contents, fragments)
	if err != nil {
		return err
	}
	cp.copyBlocks(sizes)
	for _, number := range slices.Sorted(maps.Keys(fragments)) {
		f := fragments[number]
		cp.fragments[number] = uint32(len(cp.w.fragments))
		cp.w.fragments = append(cp.w.fragments, fragment{Start: cp.runs[f.Start].start, Word: f.Word})
	}
	cp.move(contents)
	return nil
}

// newFragments returns the fragment blocks of contents that are not in the new image.
func (cp *Copier) newFragments(contents []*Content) (map[uint32]fragment, error) {
	fragments := map[uint32]fragment{}
	for _, c := range contents {
		_, old := cp.fragments[c.fragment]
		_, known := fragments[c.fragment]
		if old || known || c.fragment == noFragment {
			continue
		}
		f, err := cp.r.fragmentEntry(c.fragment)
		if err != nil {
			return nil, err
		}
		if size := f.Word &^ uncompressedBlock; size == 0 || size > cp.r.sb.BlockSize {
			return nil, damaged("a fragment block of %d bytes at %d", size, f.Start)
		}
		fragments[c.fragment] = f
	}
	return fragments, nil
}

// newRuns returns the runs of blocks that are not in the new image: their sizes in bytes, by their
// starts. One may be the beginning of another.
func (cp *Copier) newRuns(contents []*Content, fragments map[uint32]fragment) (map[uint64]uint64, error) {
	sizes := map[uint64]uint64{}
	want := func(start, size uint64) error {
		if start < superblockSize || start > cp.r.sb.InodeTable || size > cp.r.sb.InodeTable-start {
			return damaged("%d bytes of blocks at %d", size, start)
		}
		if size > cp.runs[start].size {
			sizes[start] = max(sizes[start], size)
		}
		return nil
	}
	for _, c := range contents {
		if size := c.packedSize(); size == 0 {
			c.start = 0 // a file without blocks has no start
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

// copyBlocks adds runs of blocks in the order of the old image, so that most are read in one
// sequence.
func (cp *Copier) copyBlocks(sizes map[uint64]uint64) {
	for _, start := range slices.Sorted(maps.Keys(sizes)) {
		size := sizes[start]
		cp.runs[start] = blockRun{start: cp.w.pos, size: size}
		cp.w.copyRaw(cp.file, int64(start), int64(size))
	}
}

// move updates the positions of contents to those in the new image.
func (cp *Copier) move(contents []*Content) {
	for _, c := range contents {
		if c.start > 0 {
			c.start = cp.runs[c.start].start
		}
		if c.fragment != noFragment {
			c.fragment = cp.fragments[c.fragment]
		}
	}
}

// copyRaw adds a range of a file to the image.
func (w *Writer) copyRaw(file File, from, size int64) {
	w.pos += uint64(size)
	r := w.runOf(file, nil)
	if n := len(r.parts) - 1; n >= 0 && r.parts[n].from+r.parts[n].size == from {
		r.parts[n].size += size
		return
	}
	r.parts = append(r.parts, part{from: from, size: size})
}
