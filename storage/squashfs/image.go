package squashfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

const copySize = 1 << 20 // bytes that are read at a time

// run is the parts that an image has of one file.
type run struct {
	file  File
	parts []part
}

// part is a range of a file, in bytes.
type part struct {
	from, size int64
	sum        sum
	raw        bool // of an image, which has no digests of its blocks
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
	w.files = append(w.files, p.file)
	used := map[uint64]bool{0: true}
	for _, c := range p.contents {
		used[c.start] = true
	}
	for _, f := range p.fragments {
		used[f.Start] = true
	}
	r := run{file: p.file}
	moved := map[uint64]uint64{0: 0}
	for _, e := range p.extents {
		start, ok := w.starts[e.sum]
		if ok || !used[e.start] {
			discard(p.file, int64(e.start), int64(e.size))
		} else {
			start = w.pos
			w.starts[e.sum] = start
			w.pos += e.size
			r.parts = append(r.parts, part{from: int64(e.start), size: int64(e.size), sum: e.sum})
		}
		moved[e.start] = start
	}
	for _, c := range p.contents {
		c.start = moved[c.start]
		if c.fragment != noFragment {
			c.fragment += uint32(len(w.fragments))
		}
	}
	for _, f := range p.fragments {
		w.fragments = append(w.fragments, fragment{Start: moved[f.Start], Word: f.Word})
	}
	if len(r.parts) > 0 {
		w.runs = append(w.runs, r)
	}
}

// Image is an image whose layout is complete. It can be written once.
type Image struct {
	head   []byte
	runs   []run
	tables []byte
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
	_, err := out.Write(i.tables)
	return out.n, err
}

// copyTo writes the blocks of all packs.
func (i *Image) copyTo(w io.Writer) error {
	buf := make([]byte, copySize)
	for _, r := range i.runs {
		for _, p := range r.parts {
			if err := p.copy(w, lastReader{r.file}, buf); err != nil {
				if errors.Is(err, ErrDamaged) {
					err = &Damage{File: r.file, cause: err}
				}
				return err
			}
		}
		_ = r.file.Close() // frees the space of an unnamed file
	}
	return nil
}

// copy writes the part, and compares it with its digest if it has one. A CRC would not do: the pack of
// another layer could be made to match it.
func (p part) copy(w io.Writer, r io.ReaderAt, buf []byte) error {
	check := sha256.New()
	for at, left := p.from, p.size; left > 0; {
		b := buf[:min(int64(len(buf)), left)]
		if n, err := r.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("%w: %d bytes at %d cannot be read: %w", ErrDamaged, len(b), at, err)
		}
		if !p.raw {
			check.Write(b)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		at, left = at+int64(len(b)), left-int64(len(b))
	}
	if !p.raw && sum(check.Sum(nil)) != p.sum {
		return fmt.Errorf("%w: %d bytes at %d have another SHA-256", ErrDamaged, p.size, p.from)
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
