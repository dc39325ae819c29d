package squashfs

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const copySize = 1 << 20 // bytes that are read at a time

// run is what an image has of one pack.
type run struct {
	src   File
	parts []part
}

// part is a range of a pack, in bytes.
type part struct {
	from, size int64
	check      uint32
	raw        bool // of a finished image, which has no sums
}

// Damage says which pack was found damaged: ErrDamaged.
type Damage struct {
	File  File
	cause error
}

func (d *Damage) Error() string { return fmt.Sprintf("%v: %v", ErrDamaged, d.cause) }

// Unwrap makes it ErrDamaged, and what it was found by.
func (d *Damage) Unwrap() []error { return []error{ErrDamaged, d.cause} }

// AddPack adds a pack to the image: its tree may be sealed into it, once. An extent
// that the image has already, or that no file of the tree has, takes no room. The
// source is the image's from here on, and may be that of several packs.
func (w *Writer) AddPack(p *Pack) {
	w.sources = append(w.sources, p.src)
	used := map[uint64]bool{0: true}
	for _, c := range p.contents {
		used[c.start] = true
	}
	for _, f := range p.fragments {
		used[f.Start] = true
	}
	r := run{src: p.src}
	moved := map[uint64]uint64{0: 0}
	for _, e := range p.extents {
		if !used[e.start] {
			continue
		}
		place, ok := w.places[e.sum]
		if !ok {
			place = w.pos
			w.places[e.sum] = place
			w.pos += e.size
			r.parts = append(r.parts, part{from: int64(e.start), size: int64(e.size), check: e.check})
		}
		moved[e.start] = place
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

// Image is an image that was laid out. It is written once.
type Image struct {
	head    []byte
	runs    []run
	tables  []byte
	size    int64
	sources []io.Closer
}

// Size in bytes.
func (i *Image) Size() int64 { return i.size }

// Close closes the packs.
func (i *Image) Close() { closeAll(i.sources) }

// closeAll closes what was only read; twice does no harm.
func closeAll(all []io.Closer) {
	for _, c := range all {
		_ = c.Close()
	}
}

// WriteTo writes the image front to back, and closes each pack when it was read. A
// pack that changed since it was written is a *Damage.
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

// copyTo copies what the image has of its packs.
func (i *Image) copyTo(w io.Writer) error {
	buf := make([]byte, copySize)
	for _, r := range i.runs {
		for _, p := range r.parts {
			if err := p.copy(w, r.src, buf); err != nil {
				if errors.Is(err, ErrDamaged) {
					err = &Damage{File: r.src, cause: err}
				}
				return err
			}
		}
		_ = r.src.Close() // what is behind it may need its room
	}
	return nil
}

// copy writes the part, and compares it with its sum if it has one.
func (p part) copy(w io.Writer, src io.ReaderAt, buf []byte) error {
	check := uint32(0)
	for at, left := p.from, p.size; left > 0; {
		b := buf[:min(int64(len(buf)), left)]
		if n, err := src.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("%w: %d bytes at %d cannot be read: %w", ErrDamaged, len(b), at, err)
		}
		if !p.raw {
			check = crc32.Update(check, castagnoli(), b)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		at, left = at+int64(len(b)), left-int64(len(b))
	}
	if !p.raw && check != p.check {
		return fmt.Errorf("%w: %d bytes at %d have another sum", ErrDamaged, p.size, p.from)
	}
	return nil
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
