package compose

import (
	"context"
	"io"
	"time"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Composed is a store that is ready to be written.
type Composed struct{ image *squashfs.Image }

// composeStore prepares a store that fill fills. imageTime is the time of the image, and modTime that of the files that
// no image has.
func composeStore(
	packing squashfs.Options, imageTime, modTime time.Time, tmp string,
	fill func(*Store, *squashfs.Writer, *squashfs.Compressor) (root *squashfs.Inode, err error),
) (*Composed, error) {
	compressor, err := squashfs.NewCompressor(packing)
	if err != nil {
		return nil, err
	}
	defer compressor.Close()
	out, err := squashfs.NewWriter(compressor.ImageOptions(imageTime))
	if err != nil {
		return nil, err
	}
	store, err := NewStore(out, compressor, modTime, tmp)
	if err != nil {
		return nil, err
	}
	root, err := fill(store, out, compressor)
	if err != nil {
		store.Abort()
		return nil, err
	}
	image, err := out.Close(root)
	if err != nil {
		store.Abort()
		return nil, err
	}
	return &Composed{image}, nil
}

// Size returns the size of the store in bytes.
func (c *Composed) Size() int64 { return c.image.Size() }

// Close releases the resources of the store.
func (c *Composed) Close() { c.image.Close() }

// Write writes the store. It calls progress with the number of bytes written so far. It can be
// called once. A source that cannot be read is squashfs.ErrDamaged. If ctx ends, the output is
// incomplete.
func (c *Composed) Write(ctx context.Context, w io.Writer, progress func(written int64)) error {
	_, err := c.image.WriteTo(&watched{ctx: ctx, w: w, progress: progress})
	return err
}

// watched is a writer that reports progress and stops with its context.
type watched struct {
	ctx      context.Context
	w        io.Writer
	n        int64
	progress func(int64)
}

func (w *watched) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.w.Write(p)
	w.n += int64(n)
	w.progress(w.n)
	return n, err
}
