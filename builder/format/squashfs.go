package format

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/verity"
)

// Squashfs is a file system image that nodes mount.
const Squashfs Name = "squashfs"

type squashFormat struct{}

func (squashFormat) Describe() Description {
	return Description{
		Name: Squashfs, File: layout.StoreFile, Delta: layout.DeltaStoreFile, Mounted: true, UsesCache: true,
	}
}

// Needs returns zero if the cache has all packs: the store's size is then known before it is written.
func (squashFormat) Needs(s Sizes) Needs {
	if s.Packed == s.Cached {
		return Needs{}
	}
	own := s.Own / 3 // packed: in the store and, until it is complete, in a temporary file
	store := s.Packed + own
	n := Needs{Store: store + store/127, Temporary: own} // with the hash tree
	if s.HasCache {
		n.Cache = s.Packed - s.Cached
	} else {
		n.Temporary += s.Largest // a pack is removed when it has been copied
	}
	return n
}

func (squashFormat) Open(ctx context.Context, o Options) (Store, error) {
	return newComposed(o, func(image *squashfs.Image) (artifact.Store, error) { return writeStore(ctx, o, image) })
}

// writeStore writes the file of a squashfs. Its layout is complete before the first byte is written.
func writeStore(ctx context.Context, o Options, image *squashfs.Image) (artifact.Store, error) {
	size := verity.Size(image.Size())
	if err := o.CheckSize(size); err != nil {
		return artifact.Store{}, err
	}
	o.Hooks.Begin("write store", size)
	scratch, err := atomicfile.Unnamed(o.Dir)
	if err != nil {
		return artifact.Store{}, err
	}
	defer scratch.Close()
	f, err := atomicfile.Create(filepath.Join(o.Dir, o.Name), 0o644)
	if err != nil {
		return artifact.Store{}, err
	}
	defer f.Abort()
	share(f, image.Ranges())
	w := artifact.NewHashWriter(ctx, f, o.Hooks.Add)
	v := verity.NewWriter(w, image.Size(), scratch)
	if _, err := image.WriteTo(v); err != nil {
		return artifact.Store{}, err
	}
	tree, err := v.Close()
	if err != nil {
		return artifact.Store{}, err
	}
	return artifact.Store{Name: o.Name, Size: w.Size(), Sum: w.Sum(), Tree: tree}, f.Commit()
}

// share makes blocks of packs blocks of the store where the file system can do that, so that they are written once.
func share(store *atomicfile.File, ranges []squashfs.Range) {
	for _, r := range ranges {
		if pack, ok := r.File.(*os.File); ok && !store.Share(pack, r.From, r.At, r.Size) {
			return
		}
	}
}

// Verify computes the digest of the file and its hash tree, which it compares with the one in the file.
func (squashFormat) Verify(ctx context.Context, path string, hooks progress.Hooks) (artifact.Store, error) {
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
	check := verity.NewChecker(fi.Size())
	if store.Sum, store.Size, err = artifact.SumReader(ctx, io.TeeReader(f, check), hooks); err != nil {
		return store, err
	}
	if store.Tree, err = check.Tree(); err != nil {
		err = fmt.Errorf("%s: %w", store.Name, err)
	}
	return store, err
}
