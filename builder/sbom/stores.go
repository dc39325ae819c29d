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
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
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

// openFiles opens the store of a folder, a live ISO or a medium. That of a thin delta is made of the bases.
func openFiles(ctx context.Context, name string, bases []string) (files, io.Closer, error) {
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
	d, err := layout.Open(image).Delta()
	if err == nil && d.Thin == nil {
		return image, f, nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, nil, err
	}
	return rebuilt(ctx, name, bases)
}

// rebuilt makes the store of a thin delta.
func rebuilt(ctx context.Context, name string, bases []string) (files, io.Closer, error) {
	if len(bases) == 0 {
		return nil, nil, fmt.Errorf("%w: a thin delta has no layers; name its bases with --base", ErrNoStore)
	}
	var opened []base.Store
	defer func() {
		for _, s := range opened {
			_ = s.Close() // it was only read
		}
	}()
	for _, b := range append([]string{name}, bases...) {
		s, err := base.OpenStore(b)
		if err != nil {
			return nil, nil, err
		}
		opened = append(opened, s)
	}
	tmp, err := environment.TempDir("pinbox-sbom-*")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(tmp) // the file in it has no name
	whole, err := opened[0].Rebuild(ctx, opened[1:], tmp, nil)
	if err != nil {
		return nil, nil, err
	}
	image, err := whole.Image()
	if err != nil {
		return nil, nil, errors.Join(err, whole.Close())
	}
	return image, whole, nil
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
