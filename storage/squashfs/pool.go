package squashfs

import (
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Pool compresses the blocks of any number of packs, and writes and reads packs of
// its options.
type Pool struct {
	opts   Options
	work   chan *block
	blocks sync.Pool
	wg     sync.WaitGroup

	pack   *zstd.Encoder // of the packs' indexes
	unpack *zstd.Decoder
}

// NewPool starts the workers. The caller ends them with Close, after the last pack.
func NewPool(opts Options) (*Pool, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxIndex))
	if err != nil {
		return nil, err
	}
	p := &Pool{opts: opts, work: make(chan *block, opts.Workers), pack: pack, unpack: unpack}
	p.blocks.New = func() any {
		return &block{raw: make([]byte, opts.BlockSize), packed: make([]byte, 0, opts.BlockSize+512)}
	}
	zeros := make([]byte, opts.BlockSize)
	for range opts.Workers {
		c, err := newCodec(opts.Compression)
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
	p.unpack.Close()
}

// depth is how many blocks a pack may have on their way: enough to keep all workers
// busy with one pack alone.
func (p *Pool) depth() int { return 2*p.opts.Workers + 2 }

// Form names all that the bytes of the pool's packs depend on, beside what is packed.
func (p *Pool) Form() string { return p.opts.Form() }

// ImageOptions are those of an image of the pool's packs.
func (p *Pool) ImageOptions(modTime time.Time) Options {
	opts := p.opts
	opts.ModTime = modTime
	return opts
}
