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
	"strings"
	"syscall"
)

// Tree is files by their names: those of folders, and those in tar files, which
// are read in place. Of two with one name, the one that was added later counts.
// The zero value is empty.
type Tree struct {
	files map[string]treeFile
	tars  closers
}

type treeFile struct {
	// One of the two: a file of its own, or a member of a tar file.
	path string
	tar  *os.File
	at   int64 // in the tar file, in bytes
	size int64
}

// AddTar adds the members of an uncompressed tar file, without reading what is in
// them. One that was cut off is an error.
func (t *Tree) AddTar(ctx context.Context, name string) error {
	f, err := os.Open(name)
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

// AddFolder adds the files below a folder, with their names there behind prefix. The
// folder may be a link, or a file; links below it are left out.
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

// AddTree adds what another one has, which is closed with this one.
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

// Has says whether a file is there.
func (t *Tree) Has(name string) bool { _, ok := t.files[name]; return ok }

// Names of the files, sorted.
func (t *Tree) Names() []string { return slices.Sorted(maps.Keys(t.files)) }

// Open starts to read a file, and tells its size in bytes.
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

// ReadFile reads a file of a few MiB at most.
func (t *Tree) ReadFile(name string) ([]byte, error) { return readFile(t, name) }

// fileOpener has files by their names, and tells their sizes in bytes.
type fileOpener interface {
	Has(name string) bool
	Open(name string) (io.ReadCloser, int64, error)
}

func readFile(files fileOpener, name string) ([]byte, error) {
	r, _, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if len(content) > maxFile {
		return nil, fmt.Errorf("%w: %s has more than %d bytes, which are enough for any such file", ErrLocal, name, maxFile)
	}
	return content, err
}

// openFile opens a regular file, and tells its size in bytes. A device may have no end,
// and a FIFO would wait for ever.
func openFile(name string) (io.ReadCloser, int64, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, fi.Size(), nil
}

// Close ends the reading of tar files.
func (t *Tree) Close() error { return t.tars.Close() }

// add finds the members of a tar file, without reading what is in them.
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
			return fmt.Errorf("%w: it is no tar file", ErrWrongKind)
		case err != nil:
			return err
		}
		at, err := f.Seek(0, io.SeekCurrent) // the reader of tar reads no further than it must
		if err != nil {
			return err
		}
		if at+hdr.Size > size {
			return fmt.Errorf("%s ends after %d of %d bytes: %w", hdr.Name, size-at, hdr.Size, io.ErrUnexpectedEOF)
		}
		switch name := path.Clean(hdr.Name); {
		case sparse(hdr):
			return fmt.Errorf("%s is stored with holes", hdr.Name)
		case hdr.Typeflag == tar.TypeReg:
			t.set(name, treeFile{tar: f, at: at, size: hdr.Size})
		case hdr.Typeflag == tar.TypeLink:
			t.set(name, t.files[path.Clean(hdr.Linkname)])
		}
	}
}

// sparse says whether the bytes of a member are not those of the file.
func sparse(hdr *tar.Header) bool {
	if hdr.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range hdr.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}
