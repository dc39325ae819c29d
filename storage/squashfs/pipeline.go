package squashfs

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"sync"

	"github.com/pinbox/pinbox/storage/codec"
)

// uncompressedBlock marks the size word of a data block that is stored uncompressed.
const uncompressedBlock = 1 << 24

// packedRoom is by how much an encoder may enlarge a block, in bytes.
const packedRoom = 512

// block is a data block or fragment block in a pipeline.
type block struct {
	raw, packed []byte
	sparse      bool // if the data is zeros, store nothing
	word        uint32
	ready       chan struct{}
	placed      func(b *block, start uint64)
}

func (b *block) compress(c codec.Block, zeros []byte, cache *BlockCache) {
	defer close(b.ready)
	if b.sparse = b.sparse && bytes.Equal(b.raw, zeros[:len(b.raw)]); b.sparse {
		b.packed, b.word = b.packed[:0], 0
		return
	}
	if cache != nil {
		var known bool
		if b.packed, b.word, known = cache.take(b.packed, b.raw); known {
			return
		}
	}
	b.packed = slices.Grow(b.packed[:0], len(b.raw)+packedRoom)
	packed, smaller := c.Compress(b.packed, b.raw)
	if b.packed = packed; smaller {
		b.word = uint32(len(packed))
		return
	}
	b.packed = append(b.packed[:0], b.raw...)
	b.word = uint32(len(b.raw)) | uncompressedBlock
}

// pipeline compresses blocks in parallel and writes them in the order in which they were submitted.
type pipeline struct {
	compressor *Compressor
	out        *bufio.Writer
	pos        uint64
	made       int // blocks in use
	free       chan *block
	order      chan *block
	wg         sync.WaitGroup
	once       sync.Once

	mu  sync.Mutex
	err error // the first failed write
}

func newPipeline(out io.Writer, compressor *Compressor) *pipeline {
	p := &pipeline{
		compressor: compressor, out: compressor.buffer(out), free: make(chan *block, compressor.depth()),
		order: make(chan *block, compressor.depth()),
	}
	p.wg.Go(p.write)
	return p
}

// get returns an empty block with the capacity for one block of input.
func (p *pipeline) get() (b *block) {
	select {
	case b = <-p.free:
	default:
		if p.made < p.compressor.depth() {
			p.made++
			b = p.compressor.blocks.Get().(*block)
		} else {
			b = <-p.free
		}
	}
	b.raw, b.ready = b.raw[:cap(b.raw)], make(chan struct{})
	return b
}

func (p *pipeline) put(b *block) { p.free <- b }

// submit queues b. placed is called from the writing goroutine, in the order of submission, with the
// offset at which the block was written.
func (p *pipeline) submit(b *block, sparse bool, placed func(b *block, start uint64)) error {
	b.sparse, b.placed = sparse, placed
	p.order <- b
	p.compressor.work <- b
	return p.failure()
}

func (p *pipeline) write() {
	for b := range p.order {
		<-b.ready
		p.append(b.packed)
		b.placed(b, p.pos-uint64(len(b.packed)))
		p.put(b)
	}
}

// append writes to the output, unless a write has failed.
func (p *pipeline) append(content []byte) {
	p.pos += uint64(len(content))
	if p.failure() == nil {
		if _, err := p.out.Write(content); err != nil {
			p.fail(err)
		}
	}
}

// Write is append as an io.Writer. It is called after close.
func (p *pipeline) Write(content []byte) (int, error) {
	p.append(content)
	return len(content), p.failure()
}

// flush ends the output. It is called after close, once.
func (p *pipeline) flush() error {
	out := p.out
	p.out = nil
	err := out.Flush()
	out.Reset(nil)
	p.compressor.buffers.Put(out)
	return err
}

func (p *pipeline) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

func (p *pipeline) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// close waits until all blocks are written, and returns them to the compressor.
func (p *pipeline) close() {
	p.once.Do(func() {
		close(p.order)
		p.wg.Wait()
		close(p.free)
		for b := range p.free {
			p.compressor.blocks.Put(b)
		}
	})
}
