package format

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/tarball"
)

// Tar is an archive of the tree, for administrators who make the nodes' file system themselves.
const Tar Name = "tar"

// TarFile is the store's name in the appliance's folder.
const TarFile = "store.tar"

type tarFormat struct{}

func (tarFormat) Describe() Description {
	return Description{Name: Tar, File: TarFile, Unpacked: true, UsesCache: true}
}

func (tarFormat) Needs(s Sizes) Needs {
	n := Needs{Store: s.Unpacked + s.Own}
	if s.HasCache {
		n.Cache = s.Packed - s.Cached
	} else {
		n.Temporary = s.Packed
	}
	return n
}

func (tarFormat) Open(ctx context.Context, o Options) (Store, error) {
	return newComposed(o, func(compressor *squashfs.Compressor) (output, error) {
		f, err := atomicfile.Create(filepath.Join(o.Dir, o.Name), 0o644)
		if err != nil {
			return nil, err
		}
		// The file is written while layers are read, so that it is not a step of its own.
		sum := artifact.NewHashWriter(ctx, f, func(int) {})
		out := bufio.NewWriterSize(sum, 1<<20)
		return &tarFile{Writer: tarball.NewWriter(out, compressor), name: o.Name, file: f, out: out, sum: sum}, nil
	})
}

// tarFile is written while it is composed.
type tarFile struct {
	*tarball.Writer
	name string
	file *atomicfile.File
	out  *bufio.Writer
	sum  *artifact.HashWriter
}

func (t *tarFile) finish(top *squashfs.Inode) (artifact.Store, error) {
	if err := errors.Join(t.Close(top), t.out.Flush()); err != nil {
		return artifact.Store{}, err
	}
	return artifact.Store{Name: t.name, Size: t.sum.Size(), Sum: t.sum.Sum()}, t.file.Commit()
}

// Abort removes a file that is not finished.
func (t *tarFile) Abort() {
	t.Writer.Abort()
	t.file.Abort()
}

// Verify looks for the two empty blocks that end a tar.
func (tarFormat) Verify(_ context.Context, path string, _ progress.Hooks) (artifact.Store, error) {
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
	store.Size = fi.Size()
	end := make([]byte, 1024)
	if _, err := f.ReadAt(end, store.Size-int64(len(end))); err != nil || !bytes.Equal(end, make([]byte, len(end))) {
		return store, fmt.Errorf("%s ends early, after %d bytes", store.Name, store.Size)
	}
	return store, nil
}
