package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

const (
	// parallelFetches is the limit of connections, unless the access has one. oc-mirror uses up to 80, skopeo and podman
	// 6 for one image at a time.
	parallelFetches = 32
	// MaxParallel bounds what an access may ask for: each connection may have a file and some MB of memory.
	MaxParallel = 256
	// parallelPacks is how many layers are packed at a time: enough to use all cores while some wait for
	// a registry. Each takes some MB of memory.
	parallelPacks = 8
	// earlyBytes limits the layers that are fetched before all images are resolved, and so before the free
	// space is compared with what they take. A link of 200 Mbit/s carries them in 2.7 s; 200 images are
	// resolved in 2 s if the round trip is 100 ms.
	earlyBytes = 64 << 20
	// fetchedAhead is how many layers are fetched before the store has taken them. Each is an open file.
	fetchedAhead = 1024
	// firstBytes limits the large layers that are fetched before the others: until the store takes them, their packs take
	// space.
	firstBytes = 256 << 20
	// keptIfFast is the size from which what is fetched of a blob is kept also if its host is fast, in bytes. To fetch a
	// smaller one again takes less than 4 s.
	keptIfFast = 256 << 20
)

// fetcher fetches and packs layers, each once, in the order in which they are queued.
type fetcher struct {
	*Client
	PackOptions
	// connections are those for layers. A large layer uses several, for each of which it waits in turn with the others:
	// the rate of one connection is the limit of a layer.
	connections *semaphore.Weighted
	packing     *semaphore.Weighted
	ctx         context.Context
	stop        context.CancelFunc
	group       *errgroup.Group
	started     sync.WaitGroup // the goroutine that starts those of group

	mu     sync.Mutex
	more   *sync.Cond
	jobs   map[content]*job // that the store has not taken
	queue  []*job           // those that are not started
	later  []needed         // layers for which there is no job yet
	images []Resolved       // that have them
	uses   map[content]int  // in how many places of the store a layer is needed, if it is not one
	left   map[string]int   // how many of all layers are to be fetched from a repository; nil before fetchAll
	urgent bool             // the store waits for a layer that has no job
	all    bool             // no other will be queued
	early  int64            // bytes of the layers that were queued by want
	// read is called with the bytes of each part of a blob; nil before fetchAll. got is what was fetched by then.
	read func(int)
	got  int
}

func newFetcher(ctx context.Context, c *Client, p PackOptions) *fetcher {
	f := &fetcher{
		Client: c, PackOptions: p, jobs: map[content]*job{}, packing: semaphore.NewWeighted(parallelPacks),
		connections: semaphore.NewWeighted(int64(c.parallel())),
	}
	f.more = sync.NewCond(&f.mu)
	ctx, f.stop = context.WithCancel(ctx)
	f.group, f.ctx = errgroup.WithContext(ctx)
	f.group.SetLimit(c.parallel() + 2*parallelPacks)
	f.connections.TryAcquire(int64(c.resolving())) // all are free
	f.started.Go(func() {
		for j := f.next(); j != nil; j = f.next() {
			f.group.Go(func() error { return f.run(f.ctx, j) })
		}
	})
	return f
}

// FetchEarly makes Resolve begin to fetch layers of the images that it has resolved, while others are not:
// the link would idle. Fill continues, with the same options. Close ends what Fill has not taken over.
func (c *Client) FetchEarly(ctx context.Context, p PackOptions) {
	c.early.mu.Lock()
	defer c.early.mu.Unlock()
	c.early.fetcher = newFetcher(ctx, c, p)
}

// early is the fetcher of FetchEarly; nil without, and after Fill has taken it over.
type early struct {
	mu      sync.Mutex
	fetcher *fetcher
}

// take returns the fetcher, once.
func (e *early) take() *fetcher {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.fetcher
	e.fetcher = nil
	return f
}

// want begins to fetch layers of an image.
func (e *early) want(r Resolved) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fetcher != nil {
		e.fetcher.want(r)
	}
}

// want queues the layers of an image, up to earlyBytes of all images.
func (f *fetcher) want(r Resolved) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range r.Layers {
		if f.jobs[contentOf(l)] == nil && l.Size >= 0 && l.Size <= earlyBytes-f.early && len(f.jobs) < fetchedAhead {
			f.early += l.Size
			f.add(r.Image, l)
		}
	}
}

// add queues a layer. The caller holds mu.
func (f *fetcher) add(img pinset.Image, l *pinset.LockedLayer) {
	j := &job{layer: l, img: img, done: make(chan struct{})}
	f.jobs[contentOf(l)] = j
	f.queue = append(f.queue, j)
	f.more.Broadcast()
}

// fetchAll queues the other layers that the store lacks: the largest first, then those in the order of the images.
func (f *fetcher) fetchAll(images []Resolved, store *compose.Store, read func(int)) {
	if read == nil {
		read = func(int) {}
	}
	f.connections.Release(int64(f.resolving()))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = read
	read(f.got)
	f.images = images
	f.later, f.uses = layersToFetch(images, store)
	f.later = slices.DeleteFunc(f.later, func(n needed) bool { return f.jobs[contentOf(n.in(images))] != nil })
	f.later = largestFirst(f.later, images)
	f.countLeft()
	f.all = true
	f.more.Broadcast()
}

// countLeft counts what is left of each repository, and forgets the sources of those without any. The caller holds mu.
func (f *fetcher) countLeft() {
	f.left = map[string]int{}
	for _, j := range f.jobs {
		if !j.ended {
			f.left[j.img.Repository]++
		}
	}
	for _, n := range f.later {
		f.left[f.images[n.image].Image.Repository]++
	}
	for i := range f.images {
		if repository := f.images[i].Image.Repository; f.left[repository] == 0 {
			f.remote.forget(repository)
		}
	}
}

// next returns the next layer, and nil after the last one.
func (f *fetcher) next() *job {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) == 0 {
		if len(f.later) > 0 && (f.urgent || len(f.jobs) < fetchedAhead) {
			n := f.later[0]
			f.later = f.later[1:]
			f.add(f.images[n.image].Image, n.in(f.images))
			continue
		}
		if f.all && len(f.later) == 0 {
			return nil
		}
		f.more.Wait()
	}
	j := f.queue[0]
	f.queue = f.queue[1:]
	return j
}

// wait waits until all layers were fetched, and returns the first failure.
func (f *fetcher) wait() error {
	f.started.Wait()
	return f.group.Wait()
}

// abort ends the fetches of a fetcher that nothing was filled from.
func (f *fetcher) abort() {
	f.stop()
	f.mu.Lock()
	f.queue = nil
	f.mu.Unlock()
	f.drop()
	_ = f.wait() // whoever resolves or fills has another reason
	f.closePacks()
}

// count counts the bytes of a part of a blob.
func (f *fetcher) count(n int) {
	f.mu.Lock()
	read := f.read
	if read == nil {
		f.got += n
	}
	f.mu.Unlock()
	if read != nil {
		read(n)
	}
}

// content identifies what is read for a layer. It has both digests: an image pairs a blob with a
// DiffID, and each such pair is verified by reading the blob.
type content struct{ blob, diffID digest.Digest }

func contentOf(l *pinset.LockedLayer) content { return content{l.Digest, l.DiffID} }

// job gets the pack of one layer.
type job struct {
	layer *pinset.LockedLayer
	img   pinset.Image // one that has it

	ended bool // its fetcher's mu guards it
	done  chan struct{}
	pack  *os.File // set when done is closed, as size and err
	size  int64
	err   error
}

func (j *job) close() {
	if j.pack != nil {
		_ = j.pack.Close() // it was only read, and the store may have closed it
	}
}

// run gets a layer's pack from the cache or by reading the layer.
func (f *fetcher) run(ctx context.Context, j *job) error {
	defer f.done(j)
	if j.pack, j.err = f.packOf(ctx, j); j.err != nil {
		if isForeign(j.layer) && errors.Is(j.err, ErrNotFound) {
			j.err = fault.Wrap(ErrForeign, j.err)
		}
		j.err = fmt.Errorf("layer %s: %w", j.layer.Digest, j.err)
		return fmt.Errorf("image %s: %w", j.img, j.err)
	}
	fi, err := j.pack.Stat()
	if err != nil {
		j.err = err
		return err
	}
	j.size = fi.Size()
	return nil
}

func (f *fetcher) packOf(ctx context.Context, j *job) (pack *os.File, err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	key := cache.Key{Digest: j.layer.DiffID, Blob: j.layer.Digest, Encoding: f.Compressor.Encoding()}
	if f.onlyUnpacked(j) {
		key.Blob = ""
	}
	if pack, ok := f.Cache.Get(key); ok {
		f.count(int(j.layer.Size))
		return pack, nil
	}
	var part *cache.Partial
	var resumes bool
	if keepsPart(j.layer.Size, f.IsLocal(j.img), f.Cache.HasPartial(j.layer.Digest), f.fast(j)) {
		if part, resumes, err = openPartial(f.Cache, j.layer); err != nil {
			return nil, err
		}
	}
	pack, err = f.fetchAndPack(ctx, j, key, part, resumes)
	if part != nil {
		err = errors.Join(err, part.End(err != nil && !errors.Is(err, ErrDigest)))
	}
	return pack, err
}

// fast reports whether the host of a layer is fast.
func (f *fetcher) fast(j *job) bool {
	return !f.IsLocal(j.img) && f.remote.hostOf(j.img.Repository).Fast()
}

// keepsPart reports whether what is fetched of a blob of size bytes is kept for the next run, if this one is
// interrupted: not what is on this machine, which costs nothing to read again, and little of a fast host.
func keepsPart(size int64, local, hasPart, fast bool) bool {
	switch {
	case local:
		return false
	case hasPart:
		return true
	}
	return size >= keptIfFast || !fast
}

// fetchAndPack fetches a layer and packs it. Small layers are fetched before they are packed, more of
// them at a time: the time for one is that of the answer.
func (f *fetcher) fetchAndPack(
	ctx context.Context, j *job, key cache.Key, part *cache.Partial, resumes bool,
) (pack *os.File, err error) {
	read, end := watch(f.Reading, j.img, j.layer, f.count)
	defer end()
	open := func(ctx context.Context) (io.ReadCloser, error) {
		return f.openLayer(ctx, j.img, j.layer, fetching{part: part, connections: f.connections, tmp: f.Tmp, read: read})
	}
	small := j.layer.Size >= 0 && j.layer.Size < minResumed && !f.IsLocal(j.img)
	if small {
		content, err := readAll(ctx, j.layer.Size, open)
		if err != nil {
			return nil, err
		}
		open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	}
	if err := f.packing.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer f.packing.Release(1)
	pack, err = f.packLayer(ctx, j, key, open)
	if resumes && errors.Is(err, ErrDigest) { // the partial blob may be damaged
		if err = part.Truncate(0); err == nil {
			pack, err = f.packLayer(ctx, j, key, open)
		}
	}
	return pack, err
}

// readAll reads a blob of size bytes.
func readAll(ctx context.Context, size int64, open func(context.Context) (io.ReadCloser, error)) ([]byte, error) {
	blob, err := open(ctx)
	if err != nil {
		return nil, err
	}
	content := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead)) // the reader refuses a larger one
	_, err = content.ReadFrom(blob)
	return content.Bytes(), errors.Join(err, blob.Close())
}

// onlyUnpacked reports whether this machine has the layer only unpacked, so that its blob cannot be
// verified.
func (f *fetcher) onlyUnpacked(j *job) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.local[j.img]
	return ok && !found.blobs.has(j.layer.Digest)
}

// openPartial opens the file with the bytes of a blob that an earlier run has fetched; resumes is true
// if it is not empty. part is nil for blobs below minResumed, and without a cache.
func openPartial(c cache.Cache, l *pinset.LockedLayer) (part *cache.Partial, resumes bool, err error) {
	if l.Size < minResumed {
		return nil, false, nil
	}
	if part, err = c.Partial(l.Digest); part == nil || err != nil {
		return nil, false, err
	}
	have, err := part.Size()
	return part, have > 0, err
}

// packLayer reads a layer and adds its pack to the cache.
func (f *fetcher) packLayer(
	ctx context.Context, j *job, key cache.Key, open func(context.Context) (io.ReadCloser, error),
) (*os.File, error) {
	blob := limited(f.Client, j.layer, open)
	blob.Digest = key.Blob
	return f.Cache.Put(key, f.Tmp, func(out io.Writer) error {
		return compose.PackLayer(ctx, f.Compressor, blob, out, f.Tmp)
	})
}

// limited is a layer to read within the client's limits.
func limited(c *Client, l *pinset.LockedLayer, open func(context.Context) (io.ReadCloser, error)) compose.Blob {
	return compose.Blob{DiffID: l.DiffID, Limits: c.limits, Turn: c.turn, Open: open}
}
