package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// PackOptions is what layers are made packs with.
type PackOptions struct {
	Compressor *squashfs.Compressor
	// Cache has what was packed before, and keeps what is packed now.
	Cache cache.Cache
	// Tmp is a folder for files without a name.
	Tmp string
}

// Fill writes the images into the store, each layer that it lacks once, and fills in
// the unpacked sizes of their layers. Several layers are read at a time; those that the
// cache has are not. read is called with the bytes of each part of a blob that
// arrived, from several goroutines; it may be nil.
func (c *Client) Fill(
	ctx context.Context, store *compose.Store, images []Resolved, p PackOptions, read func(int),
) error {
	if read == nil {
		read = func(int) {}
	}
	f := fetcher{Client: c, PackOptions: p, read: read, jobs: map[content]*job{}}
	order := f.plan(images, store)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLayers())
	var started sync.WaitGroup
	started.Go(func() {
		for _, j := range order {
			group.Go(func() error { return f.run(groupCtx, j) })
		}
	})
	err := addImages(images, store, func(_ *Resolved, l pinset.LockedLayer, as compose.Layer) (compose.LayerInfo, error) {
		if there, ok := store.Lookup(as); ok {
			return there, nil
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
	// The first failure is what there is to say, not what it led to.
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

// parallelLayers is how many layers are read at a time: enough to keep all cores busy,
// and a registry that is far away.
func parallelLayers() int { return min(max(4, runtime.GOMAXPROCS(0)), 8) }

type fetcher struct {
	*Client
	PackOptions
	read func(int)
	jobs map[content]*job
}

// content identifies what is read for a layer. It has both digests: an image may claim that a
// blob unpacks to a DiffID, and only reading that very blob shows whether it does.
type content struct{ blob, diffID digest.Digest }

func contentOf(l pinset.LockedLayer) content { return content{l.Digest, l.DiffID} }

// job is to get one layer's pack.
type job struct {
	layer pinset.LockedLayer
	from  *sharedSource

	done chan struct{}
	pack *os.File // once it is done
	size int64
	err  error
}

func (j *job) close() {
	if j.pack != nil {
		_ = j.pack.Close() // it was only read, and perhaps closed before
	}
}

// plan lists the different layers that the store lacks, in the order in which it
// needs them.
func (f *fetcher) plan(images []Resolved, store *compose.Store) (order []*job) {
	for i := range images {
		from := &sharedSource{client: f.Client, img: images[i]}
		parent := ""
		for _, l := range images[i].Layers {
			_, there := store.Lookup(compose.Layer{Parent: parent, DiffID: l.DiffID})
			parent = compose.LayerID(parent, l.DiffID)
			if !there && f.jobs[contentOf(l)] == nil {
				j := &job{layer: l, from: from, done: make(chan struct{})}
				f.jobs[contentOf(l)] = j
				order = append(order, j)
				from.users++
			}
		}
	}
	return order
}

// run gets a layer's pack: out of the cache, or by reading the layer.
func (f *fetcher) run(ctx context.Context, j *job) error {
	defer close(j.done)
	defer j.from.release()
	if j.pack, j.err = f.packOf(ctx, j); j.err != nil {
		j.err = fmt.Errorf("layer %s: %w", j.layer.Digest, j.err)
		return fmt.Errorf("image %s: %w", j.from.img.Image, j.err)
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
	if f.unpackedOnly(j) {
		key.Blob = ""
	}
	if pack, ok := f.Cache.Get(key); ok {
		f.read(int(j.layer.Size))
		return pack, nil
	}
	part, begun, err := f.partial(j.layer)
	if err != nil {
		return nil, err
	}
	pack, err := f.packLayer(ctx, j, key, part)
	if begun && errors.Is(err, ErrDigest) { // what was there may be what is wrong
		if err = part.Truncate(0); err == nil {
			pack, err = f.packLayer(ctx, j, key, part)
		}
	}
	if part != nil {
		err = errors.Join(err, part.End(err != nil && !errors.Is(err, ErrDigest)))
	}
	return pack, err
}

// unpackedOnly says whether there is nothing but what the layer unpacks to, so that
// nothing will be known of its blob.
func (f *fetcher) unpackedOnly(j *job) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.local[j.from.img.Image]
	return ok && !found.blobs.has(j.layer.Digest)
}

// partial opens what there is of a blob that is worth it, and says whether that is
// anything.
func (f *fetcher) partial(l pinset.LockedLayer) (part *cache.Partial, begun bool, err error) {
	if l.Size < minResumed {
		return nil, false, nil
	}
	if part, err = f.Cache.Partial(l.Digest); part == nil || err != nil {
		return nil, false, err
	}
	have, err := part.Size()
	return part, have > 0, err
}

// packLayer reads the layer and puts its pack into the cache.
func (f *fetcher) packLayer(ctx context.Context, j *job, key cache.Key, part *cache.Partial) (*os.File, error) {
	blob := compose.Blob{DiffID: j.layer.DiffID, Open: func(ctx context.Context) (io.ReadCloser, error) {
		src, err := j.from.open(ctx)
		if err != nil {
			return nil, err
		}
		return src.layer(ctx, j.layer, part, f.read)
	}}
	return f.Cache.Put(key, f.Tmp, func(out io.Writer) error {
		return compose.PackLayer(ctx, f.Compressor, blob, out, f.Tmp)
	})
}

// imageAdder is a store that records images.
type imageAdder interface{ AddImage(compose.Image) }

// addImages puts layers and images into a store, in the order of the images.
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

// sharedSource opens the source of an image when its first layer is read, and closes it
// behind the last.
type sharedSource struct {
	client *Client
	img    Resolved
	users  int // layers that are still to be read

	mu  sync.Mutex
	src *imageSource
}

func (l *sharedSource) open(ctx context.Context) (*imageSource, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.src != nil {
		return l.src, nil
	}
	src, err := l.client.open(ctx, l.img.Image)
	if err == nil {
		l.src = src
	}
	return src, err
}

func (l *sharedSource) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 && l.src != nil {
		_ = l.src.Close() // nothing was written to it
	}
}
