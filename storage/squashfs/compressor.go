package squashfs

import (
	"bufio"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Compressor compresses the blocks of any number of packs. It opens packs that were written with
// the same options.
type Compressor struct {
	opts   Options
	work   chan *block
	blocks sync.Pool
	wg     sync.WaitGroup
	cache  *BlockCache
	keyed  *keyedSums
	// Of packs that are complete, for the next ones: most layers are smaller than these.
	buffers, encoders sync.Pool
}

// buffer returns a buffer for a pack.
func (c *Compressor) buffer(out io.Writer) *bufio.Writer {
	b := c.buffers.Get().(*bufio.Writer)
	b.Reset(out)
	return b
}

// encoder returns an encoder of the index of a pack.
func (c *Compressor) encoder(out io.Writer) (*zstd.Encoder, error) {
	if e, ok := c.encoders.Get().(*zstd.Encoder); ok {
		e.Reset(out)
		return e, nil
	}
	return zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(256<<10))
}

// NewCompressor starts the workers. The caller ends them with Close, after the last pack.
func NewCompressor(opts Options) (*Compressor, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := &Compressor{opts: opts, work: make(chan *block, opts.Workers), keyed: newKeyedSums()}
	c.blocks.New = func() any { return &block{raw: make([]byte, opts.BlockSize)} }
	c.buffers.New = func() any { return bufio.NewWriterSize(nil, 64<<10) }
	zeros := make([]byte, opts.BlockSize)
	for range opts.Workers {
		encoder, err := opts.newBlock()
		if err != nil {
			c.Close()
			return nil, err
		}
		c.wg.Go(func() {
			for b := range c.work {
				b.compress(encoder, zeros, c.cache)
			}
		})
	}
	return c, nil
}

// Cache returns a cache of blocks for the packs of the compressor. It is called before the first one.
func (c *Compressor) Cache() *BlockCache {
	if c.cache == nil {
		c.cache = &BlockCache{opts: c.opts, held: make([]heldBlock, cachedAhead/c.opts.BlockSize+cachedBlocks)}
	}
	return c.cache
}

// Close ends the workers.
func (c *Compressor) Close() {
	close(c.work)
	c.wg.Wait()
}

// depth is how many blocks a pack may have in its pipeline. More would not help: no layer is
// decompressed as fast as a few workers compress it.
func (c *Compressor) depth() int { return min(2*c.opts.Workers+2, 8) }

// Encoding identifies the options and versions that determine the bytes of the compressor's packs.
func (c *Compressor) Encoding() string { return c.opts.Encoding() }

// ImageOptions returns the options of an image of the compressor's packs.
func (c *Compressor) ImageOptions(modTime time.Time) Options {
	opts := c.opts
	opts.ModTime = modTime
	return opts
}
