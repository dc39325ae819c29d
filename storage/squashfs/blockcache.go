package squashfs

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"sync"
)

// BlockCache has the data blocks that were last read from images, so that a pack with the same data takes them
// as they are, rather than compresses them again. It compares all of the data. It is for several goroutines.
type BlockCache struct {
	opts Options

	mu    sync.Mutex
	held  []heldBlock
	next  int // the one that is replaced next
	after int // the one after that which was last taken
}

type heldBlock struct {
	raw, packed []byte
	word        uint32
}

// Blocks are packed some time after they were read: a layer's stream is read ahead by 1.5 MiB, and a pack has up to
// 8 blocks in its pipeline.
const (
	cachedAhead  = 2 << 20 // bytes
	cachedBlocks = 8
)

// Fill makes the cache take the blocks that are read from a file of a Reader, if its image has the compression and
// the block size of the packs.
func (c *BlockCache) Fill(f fs.File) {
	if f, ok := f.(*openFile); ok && f.r.fits(c.opts) {
		f.cache = c
	}
}

// fits reports whether the blocks of the image can be copied to one with the options.
func (t *tables) fits(opts Options) bool {
	return t.sb.compression() == opts.Compression && int(t.sb.BlockSize) == opts.BlockSize
}

// remember puts the data block in the cache that was just read.
func (d *data) remember(word uint32) {
	switch {
	case d.cache == nil || word == 0:
	case word&uncompressedBlock != 0:
		d.cache.put(d.buf, d.buf, word)
	default:
		d.cache.put(d.buf, d.r.packed[:word], word)
	}
}

func (c *BlockCache) put(raw, packed []byte, word uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.held[c.next]
	b.raw, b.packed, b.word = append(b.raw[:0], raw...), append(b.packed[:0], packed...), word
	c.next = (c.next + 1) % len(c.held)
}

// take returns the block with the data raw, in the capacity of dst.
func (c *BlockCache) take(dst, raw []byte) (packed []byte, word uint32, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.held { // blocks are mostly taken in the order in which they were read
		at := (c.after + n) % len(c.held)
		if b := &c.held[at]; b.word != 0 && bytes.Equal(b.raw, raw) {
			c.after = at + 1
			return append(dst[:0], b.packed...), b.word, true
		}
	}
	return dst, 0, false
}

// EqualBlocks reports whether two files of Readers have the same data blocks, as they are in their images. The ends
// of files in fragment blocks are not compared.
func EqualBlocks(a, b fs.File) (bool, error) {
	x, ok := a.(*openFile)
	y, fine := b.(*openFile)
	if !ok || !fine || !x.r.fits(y.r.Options()) {
		return false, nil
	}
	return x.data.equal(&y.data)
}

func (d *data) equal(o *data) (bool, error) {
	blockSize := uint64(d.r.sb.BlockSize)
	count := d.n.blockCount(blockSize)
	if count != o.n.blockCount(blockSize) {
		return false, nil
	}
	words, others, at := d.n.blocks, o.n.blocks, uint64(0)
	buf := make([]byte, 2*blockSize)
	for range count {
		var word, other [4]byte
		if err := words.read(word[:]); err != nil {
			return false, err
		}
		if err := others.read(other[:]); err != nil || word != other {
			return false, err
		}
		size := binary.LittleEndian.Uint32(word[:]) &^ uncompressedBlock
		if size > d.r.sb.BlockSize {
			return false, damaged("inode %d has a block of %d bytes", d.n.Number, size)
		}
		mine, theirs := buf[:size], buf[blockSize:][:size]
		if err := d.r.readAt(mine, d.n.start+at); err != nil {
			return false, err
		}
		if err := o.r.readAt(theirs, o.n.start+at); err != nil || !bytes.Equal(mine, theirs) {
			return false, err
		}
		at += uint64(size)
	}
	return true, nil
}
