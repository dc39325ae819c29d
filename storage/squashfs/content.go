package squashfs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
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

// sum tells contents apart.
type sum [sha256.Size]byte

// short is where a tail stands.
type short struct{ fragment, offset uint32 }

// Content reads r to its end and stores what it gives, unless that is there
// already. Files shorter than a block share fragment blocks; the last block of a
// longer file stands alone, as mksquashfs has it.
func (w *Writer) Content(r io.Reader) (*Content, error) {
	c := &Content{fragment: noFragment}
	p := placing{c: c, w: w, packed: sha256.New()}
	for {
		b := w.pipe.get()
		n, last, err := fill(r, b.raw)
		b.raw = b.raw[:n]
		c.size += int64(n)
		if err != nil {
			w.pipe.put(b)
			return nil, err
		}
		if last && c.size == int64(n) && n < w.opts.BlockSize {
			if n == 0 {
				w.pipe.put(b)
				return c, w.pipe.failure()
			}
			return c, w.addTail(c, b)
		}
		placed := p.block
		if last {
			placed = p.last
		}
		if err := w.pipe.submit(b, true, placed); err != nil || last {
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

// placing follows a content through the pipeline. Equal contents become equal
// blocks, so their sum is over what is written, a third of what is read.
type placing struct {
	c      *Content
	w      *Writer
	packed hash.Hash
}

// block is called in the order of the blocks.
func (p *placing) block(b *block, start uint64) (next uint64) {
	c := p.c
	c.blocks = append(c.blocks, b.word)
	if b.word == 0 {
		c.sparse += uint64(len(b.raw))
	} else if c.start == 0 {
		c.start = start
	}
	p.packed.Write(b.packed)
	return start + uint64(len(b.packed))
}

// last finds out whether the content is there already: then the next one is written
// over it. Its last block may be empty.
func (p *placing) last(b *block, start uint64) (next uint64) {
	if len(b.raw) > 0 {
		start = p.block(b, start)
	}
	c := p.c
	if c.start == 0 { // all zeros
		return start
	}
	for _, word := range append(c.blocks, uint32(c.size), uint32(c.size>>32)) {
		p.packed.Write(binary.LittleEndian.AppendUint32(nil, word))
	}
	key := sum(p.packed.Sum(nil))
	if first, ok := p.w.long[key]; ok {
		c.start, start = first, c.start
		return start
	}
	p.w.long[key] = c.start
	return start
}

// addTail puts a short file into the fragment block that is being filled.
func (w *Writer) addTail(c *Content, b *block) error {
	key := sum(sha256.Sum256(b.raw))
	if first, ok := w.short[key]; ok {
		c.fragment, c.offset = first.fragment, first.offset
		w.pipe.put(b)
		return w.pipe.failure()
	}
	if w.tail != nil && len(w.tail.raw)+len(b.raw) > w.opts.BlockSize {
		if err := w.flushTail(); err != nil {
			return err
		}
	}
	c.fragment = w.tails
	if w.tail != nil {
		c.offset = uint32(len(w.tail.raw))
	}
	w.short[key] = short{c.fragment, c.offset}
	if w.tail == nil {
		w.tail = b
		return nil
	}
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
	return w.pipe.submit(b, false, func(b *block, start uint64) uint64 {
		w.fragments = append(w.fragments, fragment{Start: start, Word: b.word})
		return start + uint64(len(b.packed))
	})
}
