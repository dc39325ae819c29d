package stores

import (
	"context"
	"io"
	goruntime "runtime"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// maxThinWorkers is how many blocks are compressed at a time. Each takes memory, and other programs of the node
// need processors, too.
const maxThinWorkers = 4

// rebuilding is the store of a thin delta while it is put together.
type rebuilding struct {
	store Store
	content
	o AttachOptions

	mu sync.Mutex // layers are read in other goroutines
	// checked is done at the last check of the space.
	checked int64
	// done and all are bytes of the work: layers are read and packed, then the store is written, and read again.
	done, all int64
}

func newRebuilding(store Store, c content, o AttachOptions) *rebuilding {
	w := &rebuilding{store: store, content: c, o: o, all: 2 * store.Size}
	known := map[string]bool{}
	for _, n := range c.Delta.Needs {
		known[n.Layer] = true
	}
	for _, img := range c.Lock.Images {
		id := ""
		for _, l := range img.Layers {
			if id = layout.LayerID(id, l.DiffID); !known[id] && !known[l.DiffID.String()] {
				known[l.DiffID.String()] = true // a stream is packed once
				w.all += l.UnpackedSize
			}
		}
	}
	return w
}

// add reports that so many bytes more of the work are done.
func (w *rebuilding) add(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = min(w.done+n, w.all)
	w.o.done(Composing, w.store, w.done, w.all)
}

// checkEach is how many bytes are read between two checks of the space.
const checkEach = 16 << 20

// read is add, and returns an error if nothing more fits: the sizes in the delta may be false.
func (w *rebuilding) read(n int64) error {
	w.add(n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checked += n; w.checked < checkEach {
		return nil
	}
	w.checked = 0
	return w.o.fits(0)
}

// total returns a function to which bytes of a part of the work are reported, counted from its start.
func (w *rebuilding) total() func(done int64) {
	before := int64(0)
	return func(done int64) {
		w.add(done - before)
		before = done
	}
}

// write puts the store together and writes it.
func (w *rebuilding) write(ctx context.Context, in *thinSource, out io.Writer, tempDir string) error {
	delta := w.Delta
	delta.Thin = nil
	store, err := compose.Rebuild{
		Documents: in.documents.Reader, Lock: w.Lock, Delta: delta, TempDir: tempDir,
		Workers: min(goruntime.GOMAXPROCS(0), maxThinWorkers),
		Open: func(ctx context.Context, diffID digest.Digest, blocks *squashfs.BlockCache) (io.ReadCloser, error) {
			layer, err := in.layers.Layer(ctx, diffID, in.bases, blocks)
			return watched{layer, w.read}, err
		},
	}.Compose(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return writeVerified(ctx, out, store, tempDir, w.total())
}

// watched reports what is read.
type watched struct {
	io.ReadCloser
	read func(bytes int64) error
}

func (r watched) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if failed := r.read(int64(n)); failed != nil {
		return n, failed
	}
	return n, err
}
