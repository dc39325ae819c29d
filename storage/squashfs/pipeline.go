package squashfs

import (
	"bufio"
	"bytes"
	"io"
	"sync"
)

// uncompressedBlock marks the size word of a data block that is stored as it is.
const uncompressedBlock = 1 << 24

// block is one data or fragment block on its way through the pipeline.
type block struct {
	raw, packed []byte
	sparse      bool // zeros of a file need no bytes at all
	word        uint32
	ready       chan struct{}
	placed      func(b *block, start uint64)
}

// pipeline compresses blocks in parallel and writes them in the order in which
// they were submitted.
type pipeline struct {
	out   *bufio.Writer
	pos   uint64
	free  chan *block
	work  chan *block
	order chan *block
	wg    sync.WaitGroup
	once  sync.Once

	mu  sync.Mutex
	err error // the first failed write
}

func newPipeline(out io.Writer, start uint64, opts Options) (*pipeline, error) {
	depth := 4*opts.Workers + 2
	p := &pipeline{
		out: bufio.NewWriterSize(out, 1<<20), pos: start,
		free: make(chan *block, depth), work: make(chan *block, depth), order: make(chan *block, depth+1),
	}
	for range depth {
		p.free <- &block{raw: make([]byte, opts.BlockSize), packed: make([]byte, 0, opts.BlockSize+512)}
	}
	codecs := make([]*codec, opts.Workers)
	for i := range codecs {
		var err error
		if codecs[i], err = newCodec(); err != nil {
			return nil, err
		}
	}
	zeros := make([]byte, opts.BlockSize)
	for _, c := range codecs {
		p.wg.Go(func() {
			for b := range p.work {
				b.compress(c, zeros)
			}
		})
	}
	p.wg.Go(p.write)
	return p, nil
}

func (b *block) compress(c *codec, zeros []byte) {
	defer close(b.ready)
	if b.sparse = b.sparse && bytes.Equal(b.raw, zeros[:len(b.raw)]); b.sparse {
		b.packed, b.word = b.packed[:0], 0
		return
	}
	packed, smaller := c.pack(b.packed, b.raw)
	if b.packed = packed; smaller {
		b.word = uint32(len(packed))
		return
	}
	b.packed = append(b.packed[:0], b.raw...)
	b.word = uint32(len(b.raw)) | uncompressedBlock
}

// get returns an empty block with room for one block of input.
func (p *pipeline) get() *block {
	b := <-p.free
	b.raw, b.ready = b.raw[:cap(b.raw)], make(chan struct{})
	return b
}

func (p *pipeline) put(b *block) { p.free <- b }

// submit queues b. placed is called from the writing goroutine, in the order of
// submission, once the block has its place in the image; flush waits for that.
func (p *pipeline) submit(b *block, sparse bool, placed func(b *block, start uint64)) error {
	b.sparse, b.placed = sparse, placed
	p.order <- b
	p.work <- b
	return p.failure()
}

func (p *pipeline) write() {
	for b := range p.order {
		<-b.ready
		if b.raw == nil { // a barrier
			b.placed(b, p.pos)
			continue
		}
		if p.failure() == nil {
			if _, err := p.out.Write(b.packed); err != nil {
				p.fail(err)
			}
		}
		b.placed(b, p.pos)
		p.pos += uint64(len(b.packed))
		p.put(b)
	}
}

// flush waits until all blocks are written and says where the next would go.
func (p *pipeline) flush() (uint64, error) {
	done := make(chan uint64)
	b := &block{ready: make(chan struct{}), placed: func(_ *block, start uint64) {
		if err := p.out.Flush(); err != nil {
			p.fail(err)
		}
		done <- start
	}}
	close(b.ready)
	p.order <- b
	return <-done, p.failure()
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

func (p *pipeline) close() {
	p.once.Do(func() {
		close(p.work)
		close(p.order)
		p.wg.Wait()
	})
}
