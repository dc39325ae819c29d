package compose

import (
	"context"
	"io"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Composed is a store that is ready to be written.
type Composed struct{ image *squashfs.Image }

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
