package squashfs

import (
	"sync"
	"time"
)

// Pool compresses the blocks of any number of packs, and writes and reads packs of
// its options.
type Pool struct {
	opts   Options
	work   chan *block
	blocks sync.Pool
	wg     sync.WaitGroup
}

// NewPool starts the workers. The caller ends them with Close, after the last pack.
func NewPool(opts Options) (*Pool, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{opts: opts, work: make(chan *block, opts.Workers)}
	p.blocks.New = func() any {
		return &block{raw: make([]byte, opts.BlockSize), packed: make([]byte, 0, opts.BlockSize+512)}
	}
	zeros := make([]byte, opts.BlockSize)
	for range opts.Workers {
		c, err := opts.Compression.newBlock()
		if err != nil {
			p.Close()
			return nil, err
		}
		p.wg.Go(func() {
			for b := range p.work {
				b.compress(c, zeros)
			}
		})
	}
	return p, nil
}

// Close ends the workers.
func (p *Pool) Close() {
	close(p.work)
	p.wg.Wait()
}

// depth is how many blocks a pack may have on their way: nothing inflates a layer as
// fast as a few workers compress it.
func (p *Pool) depth() int { return min(2*p.opts.Workers+2, 8) }

// Form names all that the bytes of the pool's packs depend on, beside what is packed.
func (p *Pool) Form() string { return p.opts.Form() }

// ImageOptions are those of an image of the pool's packs.
func (p *Pool) ImageOptions(modTime time.Time) Options {
	opts := p.opts
	opts.ModTime = modTime
	return opts
}
