package format

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/thin"
	"github.com/pinbox/pinbox/storage/verity"
)

// ThinName is the name of the format of a thin delta: a delta with recipes in place of the trees of its layers, from
// which nodes make the store of a delta.
const ThinName Name = "thin"

// Thin says how to make a thin delta.
type Thin struct {
	// Bases are the stores of all bases, and Sources the IDs of the layers that each base has.
	Bases   []thin.Store
	Sources []string
	// Delta is the content of delta.json, which gets what is known of the thin delta when its recipes are made.
	Delta *pinset.Delta
}

type thinFormat struct{}

func (thinFormat) Describe() Description {
	return Description{Name: ThinName, Delta: layout.ThinStoreFile, UsesCache: true}
}

// Needs is what the store of the delta takes, which is written first and has no name. The thin delta is much
// smaller, but how much is not known.
func (thinFormat) Needs(s Sizes) Needs {
	n := Needs{Temporary: s.Packed + s.Own}
	if s.HasCache {
		n.Cache = s.Packed - s.Cached
	} else {
		n.Temporary += s.Largest
	}
	return n
}

func (thinFormat) Open(ctx context.Context, o Options) (_ Store, err error) {
	t := &thinDelta{ctx: ctx, store: &unnamedFile{ctx: ctx, opts: o}}
	defer func() {
		if err != nil {
			_ = t.Abort() // it is always nil
		}
	}()
	if t.composed, err = newComposed(o, t.store.write); err != nil {
		return nil, err
	}
	w, err := squashfs.NewWriter(o.Packing.Compressor.ImageOptions(o.ModTime))
	if err != nil {
		return nil, err
	}
	t.out = w
	t.records, err = compose.NewStore(w, o.Packing.Compressor, o.ModTime, o.Dir)
	return t, err
}

// thinDelta is a thin delta while it is written. The embedded store is that of the delta, as a node makes it;
// records is that of the thin delta.
type thinDelta struct {
	*composed
	ctx     context.Context
	store   *unnamedFile
	out     *squashfs.Writer
	records *compose.Store
}

func (t *thinDelta) Fill(ctx context.Context, client *storage.Client, images []storage.Resolved) error {
	if err := t.composed.Fill(ctx, client, images); err != nil {
		return err
	}
	return storage.AddRecords(t.records, images)
}

// Add adds a file to both stores. The thin delta gets its own delta.json, in Close.
func (t *thinDelta) Add(f File) error {
	switch {
	case f.Program != nil:
		return t.addProgram(f, t.Store, t.records)
	case f.Open != nil:
		return t.addPacked(f, t.Store, t.records)
	}
	if err := t.composed.Add(f); err != nil || f.Name == layout.OwnDelta {
		return err
	}
	return f.addTo(t.records)
}

func (t *thinDelta) Close() (artifact.Store, error) {
	whole, err := t.composed.Close()
	if err != nil {
		return artifact.Store{}, err
	}
	defer t.store.Close()
	data, err := atomicfile.Unnamed(t.opts.Dir)
	if err != nil {
		return artifact.Store{}, err
	}
	defer data.Close()
	return t.write(whole.Size, data)
}

// write makes the recipes and writes the thin delta. size is that of the store that nodes make of it.
func (t *thinDelta) write(size int64, data *os.File) (artifact.Store, error) {
	made, err := t.make(data)
	if err != nil {
		return artifact.Store{}, err
	}
	t.opts.Thin.Delta.Thin = &pinset.Thin{Version: thin.Version, StoreSize: size, Reads: made.Reads}
	var text bytes.Buffer
	if err := t.opts.Thin.Delta.Encode(&text); err != nil {
		return artifact.Store{}, err
	}
	for _, f := range []struct {
		name    string
		content io.Reader
	}{
		{layout.OwnDelta, &text}, {layout.ThinIndex, bytes.NewReader(made.Index)},
		{layout.ThinData, io.NewSectionReader(data, 0, made.DataSize)},
	} {
		if err := t.records.AddFile(f.name, 0o644, f.content); err != nil {
			return artifact.Store{}, err
		}
	}
	top, err := t.records.Close()
	if err != nil {
		return artifact.Store{}, err
	}
	image, err := t.out.Close(top)
	if err != nil {
		return artifact.Store{}, err
	}
	defer image.Close()
	if err := t.opts.CheckSize(image.Size()); err != nil {
		return artifact.Store{}, err
	}
	t.opts.Hooks.Begin("write thin delta", image.Size())
	f, err := atomicfile.Create(filepath.Join(t.opts.Dir, t.opts.Name), 0o644)
	if err != nil {
		return artifact.Store{}, err
	}
	defer f.Abort()
	w := artifact.NewHashWriter(t.ctx, f, t.opts.Hooks.Add)
	if _, err := image.WriteTo(w); err != nil {
		return artifact.Store{}, err
	}
	return artifact.Store{Name: t.opts.Name, Size: w.Size(), Sum: w.Sum()}, f.Commit()
}

// makingMemory is the soft limit of the memory, in bytes, while recipes are made: two encoders take 160 MiB, and each
// block makes new ones. Without a limit there are up to 100 MiB of old ones.
const makingMemory = 200 << 20

// make makes the recipes. Their index is in memory, with some bytes for each file that has changed.
func (t *thinDelta) make(data *os.File) (*thin.Made, error) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(makingMemory))
	begun, before := false, int64(0)
	m := thin.Maker{
		Store: thin.Store{Name: "the store of the delta", File: t.store.file, Size: t.store.size},
		Bases: t.opts.Thin.Bases, Sources: t.opts.Thin.Sources, Cache: patches{t.opts.Packing.Cache},
		Progress: func(done, of int64) {
			if !begun {
				t.opts.Hooks.Begin("compare with the base", of)
				begun = true
			}
			t.opts.Hooks.Add(int(done - before))
			before = done
		},
	}
	return m.Make(t.ctx, data)
}

// patches is the part of the cache with the blocks of thin deltas.
type patches struct{ cache.Cache }

// patchEncoding is that of their keys.
const patchEncoding = "thin-1"

func (p patches) key(d digest.Digest) cache.Key {
	return cache.Sealed(cache.Key{Digest: d, Encoding: patchEncoding})
}

// Get implements thin.Cache.
func (p patches) Get(d digest.Digest) ([]byte, error) {
	block, _ := p.GetSealed(p.key(d))
	return block, nil
}

// Put implements thin.Cache.
func (p patches) Put(d digest.Digest, block []byte) error { return p.PutSealed(p.key(d), block) }

// Abort also releases the thin delta.
func (t *thinDelta) Abort() error {
	if t.records != nil {
		t.records.Abort()
	} else if t.out != nil {
		t.out.Abort()
	}
	if t.composed == nil {
		return nil
	}
	t.store.Close()
	return t.composed.Abort()
}

// unnamedFile is the store of a delta in a file without a name, from which its recipes are made.
type unnamedFile struct {
	ctx  context.Context
	opts Options
	file *os.File
	size int64 // of the squashfs, in bytes
}

// write returns a store of the size that it has with its hash tree.
func (u *unnamedFile) write(image *squashfs.Image) (_ artifact.Store, err error) {
	u.size = image.Size()
	if err := u.opts.CheckSize(u.size); err != nil {
		return artifact.Store{}, err
	}
	u.opts.Hooks.Begin("write layers", u.size)
	if u.file, err = atomicfile.Unnamed(u.opts.Dir); err != nil {
		return artifact.Store{}, err
	}
	_, err = image.WriteTo(watched{u.ctx, u.file, u.opts.Hooks})
	return artifact.Store{Size: verity.Size(u.size)}, err
}

// Close frees the space of the file.
func (u *unnamedFile) Close() {
	if u.file != nil {
		_ = u.file.Close() // it has no name
	}
}

// watched reports what is written, and fails when its context is canceled.
type watched struct {
	ctx   context.Context
	w     io.Writer
	hooks progress.Hooks
}

func (w watched) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.w.Write(p)
	w.hooks.Add(n)
	return n, err
}

// Verify reads the index of the recipes, and computes the digest of the file.
func (thinFormat) Verify(ctx context.Context, path string, hooks progress.Hooks) (artifact.Store, error) {
	store := artifact.Store{Name: filepath.Base(path)}
	f, err := os.Open(path)
	if err != nil {
		return store, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return store, err
	}
	hooks.Begin("hash "+store.Name, fi.Size())
	if store.Sum, store.Size, err = artifact.SumReader(ctx, f, hooks); err != nil {
		return store, err
	}
	if _, err := thin.Open(thin.Store{Name: store.Name, File: f, Size: store.Size}, thin.Limits{}); err != nil {
		return store, err
	}
	return store, nil
}
