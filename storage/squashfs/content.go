package squashfs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io"
)

const noFragment = ^uint32(0)

// fragmentSize is the size of a fragment block before compression, in bytes, if blocks are not
// smaller. Who reads one small file decompresses the whole fragment block.
const fragmentSize = 32 << 10

// Content is the data of a regular file, in a pack or, after Writer.AddPack, in an image. Several
// inodes may share it.
type Content struct {
	// Tag is for the caller, and not written to the pack.
	Tag int32

	size     int64
	fragment uint32
	offset   uint32

	// The pipeline sets these as it writes the blocks.
	start  uint64
	blocks []uint32 // size words, 0 for a block of zeros
	sparse uint64   // bytes of blocks of zeros

	in *packData // the pack
}

// Size returns the size of the data, in bytes.
func (c *Content) Size() int64 { return c.size }

// position returns where the content is in the image.
func (c *Content) position() (start uint64, fragment uint32) {
	start, fragment = c.start, c.fragment
	if c.in == nil { // copied from another image
		return start, fragment
	}
	if fragment != noFragment {
		fragment += c.in.fragment
	}
	return c.in.place(start), fragment
}

// Settle lets a file of a pack that was added to the image not depend on the pack any more, which takes memory.
func (w *Writer) Settle(file *Inode) {
	if c := file.Content; c != nil && c.in != nil {
		settled := *c
		settled.start, settled.fragment = c.position()
		settled.in = nil
		file.Content = &settled
	}
}

// fragment is an entry of the fragment table.
type fragment struct {
	Start        uint64
	Word, Unused uint32
}

// sum identifies an extent.
type sum [sha256.Size]byte

// tailSum identifies a short content within one pack. Half of a SHA-256 is enough: who makes a
// collision damages only their own layer.
type tailSum [16]byte

// extent is a run of blocks that is not split: those of a long content, or one fragment block.
type extent struct {
	start, size uint64 // bytes
	sum         sum
	keyed       uint64 // see keyedSums; 0 if it is unknown
}

// tails finds short contents of a pack by their sums. A record is the sum, the fragment block and the offset.
type tails struct {
	records
	table table
}

func (t *tails) find(s tailSum) (fragment, offset uint32, ok bool) {
	at := t.table.find(s.hash(), func(at uint32) bool { return tailSum(t.at(at)) == s })
	if at == 0 {
		return 0, 0, false
	}
	place := t.at(at)[len(s):]
	return binary.LittleEndian.Uint32(place), binary.LittleEndian.Uint32(place[4:]), true
}

func (t *tails) add(s tailSum, fragment, offset uint32) {
	b := binary.LittleEndian.AppendUint32(s[:], fragment)
	if at := t.records.add(binary.LittleEndian.AppendUint32(b, offset)); at > 0 { // else there is no room
		t.table.add(at, s.hash())
	}
}

func (s tailSum) hash() uint32 { return binary.LittleEndian.Uint32(s[:]) }

// Content stores what it reads from r, up to its end. Contents shorter than a fragment block share
// fragment blocks, and equal ones are stored once. The last block of a longer content is not a
// fragment, as in mksquashfs.
func (p *Packer) Content(r io.Reader) (*Content, error) {
	c := &Content{fragment: noFragment, in: p.pack}
	var m *measuring
	for {
		b := p.pipe.get()
		n, last, err := fill(r, b.raw)
		b.raw = b.raw[:n]
		c.size += int64(n)
		if err != nil {
			p.pipe.put(b)
			return nil, err
		}
		if last && c.size == int64(n) && n < p.fragmentSize() {
			if n == 0 {
				p.pipe.put(b)
				return c, p.pipe.failure()
			}
			return c, p.addTail(c, b)
		}
		if m == nil {
			m = &measuring{p: p, c: c}
		}
		placed := m.block
		if last {
			placed = m.last
		}
		if err := p.pipe.submit(b, true, placed); err != nil || last {
			return c, err
		}
	}
}

// fill reads until p is full or r ends. Unlike io.ReadFull, it distinguishes the end of r from an
// io.ErrUnexpectedEOF that r returns.
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

// measuring records the extent of a content as the pipeline writes it. It sums the
// compressed blocks, about a third of the data, since equal contents become equal blocks.
type measuring struct {
	p *Packer
	c *Content
	e extent
}

// block is called in the order of the blocks.
func (m *measuring) block(b *block, start uint64) {
	m.c.blocks = append(m.c.blocks, b.word)
	if b.word == 0 {
		m.c.sparse += uint64(len(b.raw))
		return
	}
	if m.c.start == 0 {
		m.c.start, m.e.start = start, start
		m.p.sum.Reset()
		m.p.keyed.Reset()
	}
	m.e.size += uint64(len(b.packed))
	m.p.sum.Write(b.packed)
	_, _ = m.p.keyed.Write(b.packed) // it never fails
}

// last ends the extent. The last block may be empty.
func (m *measuring) last(b *block, start uint64) {
	if len(b.raw) > 0 {
		m.block(b, start)
	}
	if m.c.start > 0 { // not all zeros
		m.p.sum.Sum(m.e.sum[:0])
		m.e.keyed = m.p.keyed.Sum64()
		m.p.extents = append(m.p.extents, m.e)
	}
}

// fragmentSize returns the largest size of a fragment block, in bytes.
func (p *Packer) fragmentSize() int { return min(fragmentSize, p.compressor.opts.BlockSize) }

// addTail puts a short file into the fragment block that is being filled.
func (p *Packer) addTail(c *Content, b *block) error {
	all := sha256.Sum256(b.raw)
	key := tailSum(all[:])
	if fragment, offset, ok := p.short.find(key); ok {
		c.fragment, c.offset = fragment, offset
		p.pipe.put(b)
		return p.pipe.failure()
	}
	if p.tail != nil && len(p.tail.raw)+len(b.raw) > p.fragmentSize() {
		if err := p.flushTail(); err != nil {
			return err
		}
	}
	c.fragment = p.tails
	if p.tail != nil {
		c.offset = uint32(len(p.tail.raw))
	}
	p.short.add(key, c.fragment, c.offset)
	if p.tail == nil {
		p.tail = b
		return nil
	}
	p.tail.raw = append(p.tail.raw, b.raw...)
	p.pipe.put(b)
	return nil
}

func (p *Packer) flushTail() error {
	if p.tail == nil {
		return nil
	}
	b := p.tail
	p.tail = nil
	p.tails++
	return p.pipe.submit(b, false, func(b *block, start uint64) {
		p.fragments = append(p.fragments, fragment{Start: start, Word: b.word})
		p.extents = append(p.extents, extent{
			start: start, size: uint64(len(b.packed)), sum: sha256.Sum256(b.packed),
			keyed: maphash.Bytes(p.compressor.keyed.seed, b.packed),
		})
	})
}
