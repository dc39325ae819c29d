package squashfs

import (
	"errors"
	"io"
)

const noFragment = ^uint32(0)

// Content is the data of a regular file, written to the image already. Several
// inodes may share it.
type Content struct {
	size     int64
	fragment uint32
	offset   uint32

	// The pipeline fills these in when the blocks have their places.
	start  uint64
	blocks []uint32 // size words, 0 for a block of zeros
	sparse uint64   // bytes that take no room
}

// Size in bytes.
func (c *Content) Size() int64 { return c.size }

// fragment is an entry of the fragment table.
type fragment struct {
	Start        uint64
	Word, Unused uint32
}

// Content reads r to its end and stores what it gives. Files shorter than a
// block share fragment blocks; the last block of a longer file stands alone,
// as mksquashfs has it.
func (w *Writer) Content(r io.Reader) (*Content, error) {
	c := &Content{fragment: noFragment}
	for {
		b := w.pipe.get()
		n, last, err := fill(r, b.raw)
		b.raw = b.raw[:n]
		c.size += int64(n)
		if n == 0 || err != nil {
			w.pipe.put(b)
		}
		switch {
		case err != nil:
			return nil, err
		case n == 0:
			return c, w.pipe.failure()
		case last && c.size == int64(n) && n < w.opts.BlockSize:
			return c, w.addTail(c, b)
		}
		if err := w.pipe.submit(b, true, c.place); err != nil || last {
			return c, err
		}
	}
}

// fill reads until p is full or r ends. Unlike io.ReadFull it tells the end of r
// from an error of r that calls itself an unexpected end.
func fill(r io.Reader, p []byte) (n int, last bool, err error) {
	for n < len(p) {
		m, err := r.Read(p[n:])
		n += m
		if errors.Is(err, io.EOF) {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

// place is called in the order of the blocks.
func (c *Content) place(b *block, start uint64) {
	c.blocks = append(c.blocks, b.word)
	if b.word == 0 {
		c.sparse += uint64(len(b.raw))
	} else if c.start == 0 {
		c.start = start
	}
}

// addTail puts a short file into the fragment block that is being filled.
func (w *Writer) addTail(c *Content, b *block) error {
	if w.tail != nil && len(w.tail.raw)+len(b.raw) > w.opts.BlockSize {
		if err := w.flushTail(); err != nil {
			return err
		}
	}
	c.fragment = w.tails
	if w.tail == nil {
		w.tail = b
		return nil
	}
	c.offset = uint32(len(w.tail.raw))
	w.tail.raw = append(w.tail.raw, b.raw...)
	w.pipe.put(b)
	return nil
}

func (w *Writer) flushTail() error {
	if w.tail == nil {
		return nil
	}
	b := w.tail
	w.tail = nil
	w.tails++
	return w.pipe.submit(b, false, func(b *block, start uint64) {
		w.fragments = append(w.fragments, fragment{Start: start, Word: b.word})
	})
}
