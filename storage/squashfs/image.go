package squashfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

const copySize = 1 << 20 // bytes that are read at a time

// run is the parts that an image has of one file.
type run struct {
	file  File
	keys  *keyedSums // of the parts that have keyed sums
	parts []part
}

// part is a range of a file, in bytes, after some zeros.
type part struct {
	pad        int64
	from, size int64
	kind       sumKind
	sum        sum // only 8 bytes of it, if it is keyed
}

// sumKind says by what a part is checked when it is copied.
type sumKind uint8

const (
	unsummed sumKind = iota // a part of an image, which has no digests of its blocks
	bySHA256
	byKey // see keyedSums; in the order of bytes of maphash.Hash.Sum
)

// part is all of an extent.
func (in *packData) part(e extent) part {
	p := part{from: int64(in.base + e.start), size: int64(e.size), kind: bySHA256, sum: e.sum}
	if e.keyed != 0 {
		p.kind, p.sum = byKey, sum{}
		binary.LittleEndian.PutUint64(p.sum[:], e.keyed)
	}
	return p
}

// Damage is the error of a pack or an image that is damaged: ErrDamaged, with its file.
type Damage struct {
	File  File
	cause error // which wraps ErrDamaged
}

func (d *Damage) Error() string { return d.cause.Error() }

// Unwrap returns the cause, which is ErrDamaged.
func (d *Damage) Unwrap() error { return d.cause }

// AddPack adds the blocks of a pack to the image, so that its tree can be written into it, once. An
// extent that the image already has, or that no file of the tree uses, takes no space. The image
// closes the pack's file, which several packs may share.
func (w *Writer) AddPack(p *Pack) {
	if n := len(w.files); n == 0 || w.files[n-1] != p.file {
		w.files = append(w.files, p.file)
	}
	p.moved, p.fragment = make([]uint64, len(p.extents)), uint32(len(w.fragments))
	end, taken := uint64(packHead), uint64(0)
	for n, e := range p.extents {
		if e.start > end { // no file uses it
			discard(p.file, int64(p.base+end), int64(e.start-end))
		}
		if start, ok := w.starts[e.sum]; ok {
			discard(p.file, int64(p.base+e.start), int64(e.size))
			p.moved[n], end = start, e.start+e.size
			continue
		}
		pad := uint64(0)
		if taken < e.start {
			pad = w.padding(p.extents[n:])
		}
		w.pos += pad
		w.starts[e.sum], p.moved[n] = w.pos, w.pos
		w.pos += e.size
		next := p.part(e)
		next.pad = int64(pad)
		r := w.runOf(p.file, p.keys)
		r.parts = append(r.parts, next)
		end = e.start + e.size
		taken = end
	}
	for _, f := range p.fragments {
		w.fragments = append(w.fragments, fragment{Start: p.place(f.Start), Word: f.Word})
	}
}

// runOf returns the last run, if it is of the file and has these keys, or starts one.
func (w *Writer) runOf(file File, keys *keyedSums) *run {
	if n := len(w.runs) - 1; n < 0 || w.runs[n].file != file || w.runs[n].keys != keys {
		w.runs = append(w.runs, run{file: file, keys: keys})
	}
	return &w.runs[len(w.runs)-1]
}

const (
	// diskBlock is the size of what files of one file system can share, in bytes: the blocks of XFS and btrfs.
	diskBlock = 4096
	// leastShared is the size in bytes from which a part of a pack is aligned for that. Fewer bytes are not worth the
	// zeros before them: 2 KiB on average.
	leastShared = 512 << 10
)

// padding returns how many zeros come before the first of these extents of a pack. With them, the extents that follow
// it without a gap have the same place in a block of the disk as in the pack. It is the same on all file systems.
func (w *Writer) padding(extents []extent) uint64 {
	from, end := extents[0].start, extents[0].start
	for _, e := range extents {
		if _, known := w.starts[e.sum]; known || e.start != end || end-from >= leastShared {
			break
		}
		end += e.size
	}
	if end-from < leastShared {
		return 0
	}
	return (from - w.pos) % diskBlock
}

// Range is a range of an image that a file has, too, in bytes.
type Range struct {
	File           File
	From, At, Size int64 // in the file; in the image
}

// Ranges returns the ranges that have the same place in the blocks of a disk as in their files, in the order of the
// image. An output that can share blocks of files has them without a write; WriteTo gives it all bytes nevertheless.
func (i *Image) Ranges() (all []Range) {
	at := int64(len(i.head))
	for _, r := range i.runs {
		for _, p := range r.parts {
			at += p.pad
			last := len(all) - 1
			switch {
			case last >= 0 && all[last].File == r.file && all[last].At+all[last].Size == at &&
				all[last].From+all[last].Size == p.from:
				all[last].Size += p.size
			case (at-p.from)%diskBlock == 0:
				all = append(all, Range{r.file, p.from, at, p.size})
			}
			at += p.size
		}
	}
	return all
}

// Image is an image whose layout is complete. It can be written once.
type Image struct {
	head   []byte
	runs   []run
	tables pieces
	size   int64
	files  []io.Closer
}

// Size returns the size of the image, in bytes.
func (i *Image) Size() int64 { return i.size }

// Close closes the packs.
func (i *Image) Close() { closeAll(i.files) }

// closeAll closes files that were only read. To close one twice does no harm.
func closeAll(all []io.Closer) {
	for _, c := range all {
		_ = c.Close()
	}
}

// WriteTo writes the image front to back, and closes each pack after its last block. The error is a
// *Damage if a pack does not have the bytes that were written.
func (i *Image) WriteTo(w io.Writer) (int64, error) {
	defer i.Close()
	out := &tally{w: w}
	if _, err := out.Write(i.head); err != nil {
		return out.n, err
	}
	if err := readAhead(out, i.copyTo); err != nil {
		return out.n, err
	}
	_, err := i.tables.WriteTo(out)
	return out.n, err
}

// copyTo writes the blocks of all packs.
func (i *Image) copyTo(w io.Writer) error {
	buf := make([]byte, copySize)
	last := map[File]int{} // its last run
	for n, r := range i.runs {
		last[r.file] = n
	}
	for n, r := range i.runs {
		for _, p := range r.parts {
			if err := p.copy(w, lastReader{r.file}, r.keys, buf); err != nil {
				if errors.Is(err, ErrDamaged) {
					err = &Damage{File: r.file, cause: err}
				}
				return err
			}
		}
		if last[r.file] == n {
			_ = r.file.Close() // frees the space of an unnamed file
		}
	}
	return nil
}

// copy writes the part, and compares it with its sum if it has one. For a pack of another process a CRC would
// not do: the pack of another layer could be made to match it.
func (p part) copy(w io.Writer, r io.ReaderAt, keys *keyedSums, buf []byte) error {
	if p.pad > 0 {
		if _, err := w.Write(make([]byte, p.pad)); err != nil {
			return err
		}
	}
	check := p.hash(keys)
	for at, left := p.from, p.size; left > 0; {
		b := buf[:min(int64(len(buf)), left)]
		if n, err := r.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("%w: %d bytes at %d cannot be read: %w", ErrDamaged, len(b), at, err)
		}
		if check != nil {
			check.Write(b)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		at, left = at+int64(len(b)), left-int64(len(b))
	}
	if check != nil && !bytes.HasPrefix(p.sum[:], check.Sum(nil)) {
		return fmt.Errorf("%w: %d bytes at %d are not those that were written", ErrDamaged, p.size, p.from)
	}
	return nil
}

// hash starts the sum by which the part is checked; nil if it has none.
func (p part) hash(keys *keyedSums) hash.Hash {
	switch p.kind {
	case bySHA256:
		return sha256.New()
	case byKey:
		return keys.hash()
	}
	return nil
}

// Discarder is a File for one image, which frees the space of bytes that are not read again.
type Discarder interface {
	File
	// Discard frees size bytes.
	Discard(from, size int64)
}

func discard(f File, from, size int64) {
	if d, ok := f.(Discarder); ok {
		d.Discard(from, size)
	}
}

// lastReader discards what it has read.
type lastReader struct{ File }

func (r lastReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := r.File.ReadAt(p, at)
	discard(r.File, at, int64(n))
	return n, err
}

// tally counts what is written.
type tally struct {
	w io.Writer
	n int64
}

func (t *tally) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.n += int64(n)
	return n, err
}
