package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// PackOptions has the compressor for packs and the folders for them.
type PackOptions struct {
	Compressor *squashfs.Compressor
	// Cache has the packs of earlier builds, and gets the new ones.
	Cache cache.Cache
	// Tmp is a folder for temporary files.
	Tmp string
}

// Fill writes the images into the store: each layer that the store lacks, once. It sets the
// unpacked sizes, inodes and root attributes of the images' layers. It reads several layers at a
// time, but none whose pack is in the cache. read is called with the bytes of each part of a blob,
// from several goroutines; it may be nil.
func (c *Client) Fill(
	ctx context.Context, store *compose.Store, images []Resolved, p PackOptions, read func(int),
) error {
	if read == nil {
		read = func(int) {}
	}
	f := fetcher{
		Client: c, PackOptions: p, read: read, jobs: map[content]*job{}, packing: semaphore.NewWeighted(parallelPacks),
	}
	order := f.plan(images, store)
	f.lanes.waiting = len(order)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelFetches)
	var started sync.WaitGroup
	started.Go(func() {
		for _, j := range order {
			group.Go(func() error { return f.run(groupCtx, j) })
		}
	})
	err := addImages(images, store, func(_ *Resolved, l pinset.LockedLayer, as compose.Layer) (compose.LayerInfo, error) {
		if info, ok := store.Lookup(as); ok {
			return info, nil
		}
		j := f.jobs[contentOf(l)]
		<-j.done
		if j.err != nil {
			return compose.LayerInfo{}, j.err
		}
		return store.AddLayer(as, j.pack, j.size)
	})
	if err != nil {
		stop()
	}
	started.Wait()
	// Return the first failure, not the errors that it caused.
	if failed := group.Wait(); failed != nil && (err == nil || !errors.Is(failed, context.Canceled)) {
		err = failed
	}
	if err != nil {
		for _, j := range order {
			j.close()
		}
	}
	return err
}

// parallelPacks is how many layers are packed at a time: enough to use all cores while some wait for
// a registry. Each takes some MB of memory.
const parallelPacks = 8

type fetcher struct {
	*Client
	PackOptions
	read    func(int)
	jobs    map[content]*job
	lanes   lanes
	packing *semaphore.Weighted
}

// content identifies what is read for a layer. It has both digests: an image pairs a blob with a
// DiffID, and each such pair is verified by reading the blob.
type content struct{ blob, diffID digest.Digest }

func contentOf(l pinset.LockedLayer) content { return content{l.Digest, l.DiffID} }

// job gets the pack of one layer.
type job struct {
	layer pinset.LockedLayer
	img   pinset.Image // one that has it

	done chan struct{}
	pack *os.File // set when done is closed, as size and err
	size int64
	err  error
}

func (j *job) close() {
	if j.pack != nil {
		_ = j.pack.Close() // it was only read, and the store may have closed it
	}
}

// plan returns a job for each layer that the store lacks, in the order of the images.
func (f *fetcher) plan(images []Resolved, store *compose.Store) (order []*job) {
	for i := range images {
		parent := ""
		for _, l := range images[i].Layers {
			_, stored := store.Lookup(compose.Layer{Parent: parent, DiffID: l.DiffID})
			parent = layout.LayerID(parent, l.DiffID)
			if !stored && f.jobs[contentOf(l)] == nil {
				j := &job{layer: l, img: images[i].Image, done: make(chan struct{})}
				f.jobs[contentOf(l)] = j
				order = append(order, j)
			}
		}
	}
	return order
}

// run gets a layer's pack from the cache or by reading the layer.
func (f *fetcher) run(ctx context.Context, j *job) error {
	defer close(j.done)
	if j.pack, j.err = f.packOf(ctx, j); j.err != nil {
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

func (f *fetcher) packOf(ctx context.Context, j *job) (*os.File, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	key := cache.Key{Digest: j.layer.DiffID, Blob: j.layer.Digest, Encoding: f.Compressor.Encoding()}
	if f.onlyUnpacked(j) {
		key.Blob = ""
	}
	if pack, ok := f.Cache.Get(key); ok {
		f.lanes.start()
		f.lanes.end()
		f.read(int(j.layer.Size))
		return pack, nil
	}
	part, resumes, err := openPartial(f.Cache, j.layer)
	if err != nil {
		return nil, err
	}
	pack, err := f.fetchAndPack(ctx, j, key, part, resumes)
	if part != nil {
		err = errors.Join(err, part.End(err != nil && !errors.Is(err, ErrDigest)))
	}
	return pack, err
}

// fetchAndPack fetches a layer and packs it. Small layers are fetched before they are packed, more of
// them at a time: the time for one is that of the answer.
func (f *fetcher) fetchAndPack(
	ctx context.Context, j *job, key cache.Key, part *cache.Partial, resumes bool,
) (pack *os.File, err error) {
	open := func(ctx context.Context) (io.ReadCloser, error) {
		return f.openLayer(ctx, j.img, j.layer, fetching{part: part, lanes: &f.lanes, tmp: f.Tmp, read: f.read})
	}
	small := j.layer.Size >= 0 && j.layer.Size < minResumed && !f.isLocal(j.img)
	if small {
		f.lanes.start()
		content, err := readAll(ctx, open)
		f.lanes.end()
		if err != nil {
			return nil, err
		}
		open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	}
	if err := f.packing.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer f.packing.Release(1)
	if !small {
		f.lanes.start()
		defer f.lanes.end()
	}
	pack, err = f.packLayer(ctx, j, key, open)
	if resumes && errors.Is(err, ErrDigest) { // the partial blob may be damaged
		if err = part.Truncate(0); err == nil {
			pack, err = f.packLayer(ctx, j, key, open)
		}
	}
	return pack, err
}

func readAll(ctx context.Context, open func(context.Context) (io.ReadCloser, error)) ([]byte, error) {
	blob, err := open(ctx)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(blob)
	return content, errors.Join(err, blob.Close())
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
func openPartial(c cache.Cache, l pinset.LockedLayer) (part *cache.Partial, resumes bool, err error) {
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
func limited(c *Client, l pinset.LockedLayer, open func(context.Context) (io.ReadCloser, error)) compose.Blob {
	return compose.Blob{DiffID: l.DiffID, Limits: c.limits, Turn: c.turn, Open: open}
}

// AddRecords adds the records of images to a store that has none of their layers: that of a thin delta.
func AddRecords(store *compose.Store, images []Resolved) {
	_ = addImages(images, store, func( // add never fails
		_ *Resolved, l pinset.LockedLayer, as compose.Layer,
	) (compose.LayerInfo, error) {
		return compose.LayerInfo{
			ID: layout.LayerID(as.Parent, l.DiffID), Size: l.UnpackedSize, Inodes: l.Inodes, RootAttributes: l.RootAttributes,
		}, nil
	})
}

// imageAdder is a store that records images.
type imageAdder interface{ AddImage(compose.Image) }

// addImages adds layers, by the function add, and images to a store, in the order of the images.
func addImages(
	images []Resolved, store imageAdder, add func(*Resolved, pinset.LockedLayer, compose.Layer) (compose.LayerInfo, error),
) error {
	for i := range images {
		img := &images[i]
		top := ""
		for n := range img.Layers {
			l := &img.Layers[n]
			u, err := add(img, *l, compose.Layer{
				Parent: top, Digest: l.Digest, Size: l.Size, MediaType: l.MediaType, DiffID: l.DiffID,
			})
			if err != nil {
				return fmt.Errorf("image %s: %w", img.Image, err)
			}
			l.UnpackedSize, l.Inodes, l.RootAttributes, top = u.Size, u.Inodes, u.RootAttributes, u.ID
		}
		store.AddImage(compose.Image{
			Names: append([]string{img.Pin}, img.Tags...), TopLayer: top, Index: img.Index, Manifest: img.Manifest,
			Config: img.Config, Signatures: img.Signatures, Created: img.Created,
		})
	}
	return nil
}
