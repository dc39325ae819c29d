package sbom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// ErrNoStore says that there is no store whose layers can be read.
var ErrNoStore = errors.New("no store to read packages from")

// files is the tree of a store, whatever its format. Links are not followed.
type files interface {
	fs.FS
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	// Xattrs returns the attributes of a file; trusted.overlay.opaque is among them.
	Xattrs(name string) (map[string]string, error)
}

const opaque = "trusted.overlay.opaque"

// openFiles opens the store of a folder, a live ISO or a medium.
func openFiles(ctx context.Context, name string) (files, io.Closer, error) {
	store, err := artifact.FindStore(name)
	if err != nil {
		return nil, nil, err
	}
	if store.File == "" {
		return openOther(ctx, name)
	}
	f, err := input.Medium(store.File)
	if err != nil {
		return nil, nil, err
	}
	image, err := squashfs.OpenImage(io.NewSectionReader(f, store.Offset, store.Size), store.Size)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return image, f, nil
}

// openOther opens a store of another format than squashfs.
func openOther(ctx context.Context, name string) (files, io.Closer, error) {
	f, err := input.Open(filepath.Join(name, format.TarFile))
	if err == nil {
		index, err := readTar(ctx, f)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("%s: %w", format.TarFile, err), f.Close())
		}
		return index, f, nil
	}
	dir := filepath.Join(name, format.DirFile)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, ErrNoStore
	}
	return folder{root.FS().(fs.ReadLinkFS), dir}, root, nil
}

// folder is a store of format dir, which nothing leaves by a link.
type folder struct {
	fs.ReadLinkFS
	dir string
}

func (f folder) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.ReadLinkFS, name) }

func (f folder) Xattrs(name string) (map[string]string, error) {
	value := make([]byte, 1)
	n, err := unix.Lgetxattr(filepath.Join(f.dir, name), opaque, value)
	if err != nil || n == 0 { // there is none, or it is a longer one
		return nil, nil
	}
	return map[string]string{opaque: string(value)}, nil
}

// maxFile is the limit for a file in bytes: eight times the database of rpm of a node's system.
const maxFile = 64 << 20

var errTooLong = fmt.Errorf("it has more than %d MiB", maxFile>>20)

func readFile(files files, name string, limit int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = errTooLong
	}
	return content, err
}
