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
	placed      func(b *block, start uint64) (next uint64)
}

// pipeline compresses blocks in parallel and writes them in the order in which
// they were submitted.
type pipeline struct {
	out   io.WriterAt
	buf   *bufio.Writer // of what goes to out, up to pos
	pos   uint64
	free  chan *block
	work  chan *block
	order chan *block
	wg    sync.WaitGroup
	once  sync.Once

	mu  sync.Mutex
	err error // the first failed write
}

func newPipeline(out io.WriterAt, start uint64, opts Options) (*pipeline, error) {
	depth := 4*opts.Workers + 2
	p := &pipeline{
		out: out, buf: bufio.NewWriterSize(io.NewOffsetWriter(out, int64(start)), 1<<20), pos: start,
		free: make(chan *block, depth), work: make(chan *block, depth), order: make(chan *block, depth+1),
	}
	for range depth {
		p.free <- &block{raw: make([]byte, opts.BlockSize), packed: make([]byte, 0, opts.BlockSize+512)}
	}
	codecs := make([]codec, opts.Workers)
	for i := range codecs {
		var err error
		if codecs[i], err = newCodec(opts.Compression); err != nil {
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

func (b *block) compress(c codec, zeros []byte) {
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
// submission, once the block has its place in the image; flush waits for that. It
// says where the next block goes: behind this one, or over what is not needed.
func (p *pipeline) submit(b *block, sparse bool, placed func(b *block, start uint64) (next uint64)) error {
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
			if _, err := p.buf.Write(b.packed); err != nil {
				p.fail(err)
			}
		}
		p.next(b.placed(b, p.pos), p.pos+uint64(len(b.packed)))
		p.put(b)
	}
}

// next goes on at pos; end is behind what was written.
func (p *pipeline) next(pos, end uint64) {
	p.pos = pos
	if pos == end {
		return
	}
	if err := p.buf.Flush(); err != nil {
		p.fail(err)
	}
	p.buf.Reset(io.NewOffsetWriter(p.out, int64(pos)))
}

// flush waits until all blocks are written and says where the next would go.
func (p *pipeline) flush() (uint64, error) {
	done := make(chan uint64)
	b := &block{ready: make(chan struct{}), placed: func(_ *block, start uint64) uint64 {
		if err := p.buf.Flush(); err != nil {
			p.fail(err)
		}
		done <- start
		return start
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
