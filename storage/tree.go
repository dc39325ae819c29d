package storage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/input"
)

// Tree maps names to files in folders and to members of tar files, which are read in place. A file
// replaces an earlier one of the same name. The zero value is empty.
type Tree struct {
	files map[string]treeFile
	tars  closers
}

type treeFile struct {
	path string   // of a file in a folder
	tar  *os.File // of a member; else nil
	at   int64    // the member's offset in tar, in bytes
	size int64
}

// AddTar adds the members of an uncompressed tar file, without reading their contents. A truncated
// file is an error.
func (t *Tree) AddTar(ctx context.Context, name string) error {
	f, err := input.Open(name)
	if err != nil {
		return err
	}
	t.tars = append(t.tars, f)
	err = t.add(ctx, f)
	if errors.Is(err, ErrWrongKind) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrLocal, err)
	}
	return nil
}

// AddFolder adds the files below a folder. Their names are prefix and the path below dir. dir may
// be a link, or a file; links below it are left out.
func (t *Tree) AddFolder(ctx context.Context, dir, prefix string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return errors.Join(err, ctx.Err())
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, name)
		if err == nil {
			t.set(path.Join(prefix, filepath.ToSlash(below)), treeFile{path: name, size: info.Size()})
		}
		return err
	})
}

// AddTree adds the files of another tree. Close of this tree closes the other one too.
func (t *Tree) AddTree(other *Tree) {
	for name, f := range other.files {
		t.set(name, f)
	}
	t.tars, other.tars = append(t.tars, other.tars...), nil
}

func (t *Tree) set(name string, f treeFile) {
	if t.files == nil {
		t.files = map[string]treeFile{}
	}
	t.files[name] = f
}

// Has reports whether the tree has a file.
func (t *Tree) Has(name string) bool { _, ok := t.files[name]; return ok }

// Names of the files, sorted.
func (t *Tree) Names() []string { return slices.Sorted(maps.Keys(t.files)) }

// Open opens a file and returns its size in bytes.
func (t *Tree) Open(name string) (io.ReadCloser, int64, error) {
	f, ok := t.files[name]
	if !ok {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if f.tar != nil {
		return io.NopCloser(io.NewSectionReader(f.tar, f.at, f.size)), f.size, nil
	}
	return openFile(f.path)
}

// ReadFile reads a file of at most 64 MiB.
func (t *Tree) ReadFile(name string) ([]byte, error) { return readFile(t, name) }

// fileOpener opens files by their names.
type fileOpener interface {
	Has(name string) bool
	// Open returns the size of the file in bytes.
	Open(name string) (io.ReadCloser, int64, error)
}

func readFile(files fileOpener, name string) ([]byte, error) {
	r, size, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var content []byte
	if size <= maxFile { // or 64 MiB would be read in vain, which take 150 MiB of memory
		content, err = io.ReadAll(io.LimitReader(r, maxFile+1))
	}
	if max(size, int64(len(content))) > maxFile {
		return nil, fmt.Errorf("%w: %s has more than %d bytes, the limit for such a file", ErrLocal, name, maxFile)
	}
	return content, err
}

// openFile opens a regular file and returns its size in bytes.
func openFile(name string) (io.ReadCloser, int64, error) {
	f, err := input.Open(name)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, fi.Size(), nil
}

// Close closes the tar files.
func (t *Tree) Close() error { return t.tars.Close() }

// add adds the members of a tar file, without reading their contents.
func (t *Tree) add(ctx context.Context, f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	found := 0
	for tr := tar.NewReader(f); ; found++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		hdr, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF) && found > 0:
			return nil
		case found == 0 && (errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
			return fmt.Errorf("%w: it is not a tar file", ErrWrongKind)
		case err != nil:
			return err
		}
		at, err := f.Seek(0, io.SeekCurrent) // archive/tar reads no more than the header
		if err != nil {
			return err
		}
		if hdr.Size > size-at { // the sum may overflow
			return fmt.Errorf("%s ends after %d of %d bytes: %w", hdr.Name, size-at, hdr.Size, io.ErrUnexpectedEOF)
		}
		switch name := path.Clean(hdr.Name); {
		case compose.IsSparse(hdr):
			return fmt.Errorf("%s is a sparse file", hdr.Name)
		case hdr.Typeflag == tar.TypeReg:
			t.set(name, treeFile{tar: f, at: at, size: hdr.Size})
		case hdr.Typeflag == tar.TypeLink:
			of, there := t.files[path.Clean(hdr.Linkname)]
			if !there {
				return fmt.Errorf("%s is a link to %q, which is not before it", hdr.Name, hdr.Linkname)
			}
			t.set(name, of)
		}
	}
}
