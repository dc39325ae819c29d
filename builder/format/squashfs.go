package format

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Squashfs is a file system image that nodes mount.
const Squashfs Name = "squashfs"

type squashFormat struct{}

func (squashFormat) Describe() Description {
	return Description{
		Name: Squashfs, File: artifact.StoreFile, Delta: artifact.DeltaStoreFile, Mounted: true, UsesCache: true,
	}
}

// Needs returns zero if the cache has all packs: the store's size is then known before it is written.
func (squashFormat) Needs(s Sizes) Needs {
	if s.Packed == s.Cached {
		return Needs{}
	}
	own := s.Own / 3 // packed: in the store and, until it is complete, in a temporary file
	n := Needs{Store: s.Packed + own, Temporary: own}
	if s.HasCache {
		n.Cache = s.Packed - s.Cached
	} else {
		n.Temporary += s.Largest // a pack is removed when it has been copied
	}
	return n
}

func (squashFormat) Open(ctx context.Context, o Options) (Store, error) {
	return newComposed(o, func(compressor *squashfs.Compressor) (output, error) {
		w, err := squashfs.NewWriter(compressor.ImageOptions(o.ModTime))
		if err != nil {
			return nil, err
		}
		return &squashFile{Writer: w, ctx: ctx, opts: o}, nil
	})
}

// squashFile is the file of a squashfs. Its layout is complete before the first byte is written.
type squashFile struct {
	*squashfs.Writer
	ctx  context.Context
	opts Options
}

func (q *squashFile) finish(top *squashfs.Inode) (artifact.Store, error) {
	image, err := q.Close(top)
	if err != nil {
		return artifact.Store{}, err
	}
	defer image.Close()
	if err := q.opts.CheckSize(image.Size()); err != nil {
		return artifact.Store{}, err
	}
	q.opts.Hooks.Begin("write store", image.Size())
	f, err := atomicfile.Create(filepath.Join(q.opts.Dir, q.opts.Name), 0o644)
	if err != nil {
		return artifact.Store{}, err
	}
	defer f.Abort()
	w := artifact.NewHashWriter(q.ctx, f, q.opts.Hooks.Add)
	if _, err := image.WriteTo(w); err != nil {
		return artifact.Store{}, err
	}
	return artifact.Store{Name: q.opts.Name, Size: w.Size(), Sum: w.Sum()}, f.Commit()
}

// Verify compares the size of the file with the size in its superblock.
func (squashFormat) Verify(path string) (int64, error) {
	return checkFile(path, func(f *os.File, size int64) error {
		head := make([]byte, 48)
		if _, err := f.ReadAt(head, 0); err != nil || binary.LittleEndian.Uint32(head) != squashfs.Magic {
			return fmt.Errorf("%s is not a squashfs", filepath.Base(path))
		}
		if used := binary.LittleEndian.Uint64(head[40:]); used > uint64(size) {
			return fmt.Errorf("%s ends after %d of %d bytes", filepath.Base(path), size, used)
		}
		return nil
	})
}
