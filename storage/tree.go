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
	"time"
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
	path    string
	tar     *os.File
	at      span
	size    int64
	modTime time.Time
}

// AddTar adds the members of an uncompressed tar file, without reading what is in
// them. One that was cut off is an error.
func (t *Tree) AddTar(ctx context.Context, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	t.tars = append(t.tars, f)
	members, err := indexTar(ctx, f)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrLocal, err)
	}
	for member, at := range members {
		t.add(member, treeFile{tar: f, at: at, size: at.size, modTime: at.modTime})
	}
	return nil
}

// AddFolder adds the files below a folder, with their names there behind prefix.
func (t *Tree) AddFolder(ctx context.Context, dir, prefix string) error {
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
			t.add(path.Join(prefix, filepath.ToSlash(below)), treeFile{path: name, size: info.Size(), modTime: info.ModTime()})
		}
		return err
	})
}

// AddTree adds what another one has, which is closed with this one.
func (t *Tree) AddTree(other *Tree) {
	for name, f := range other.files {
		t.add(name, f)
	}
	t.tars, other.tars = append(t.tars, other.tars...), nil
}

func (t *Tree) add(name string, f treeFile) {
	if t.files == nil {
		t.files = map[string]treeFile{}
	}
	t.files[name] = f
}

// Names of the files, sorted.
func (t *Tree) Names() []string { return slices.Sorted(maps.Keys(t.files)) }

// ModTime is when a file was changed last.
func (t *Tree) ModTime(name string) time.Time { return t.files[name].modTime }

// Open starts to read a file, and tells its size in bytes.
func (t *Tree) Open(name string) (io.ReadCloser, int64, error) {
	f, ok := t.files[name]
	if !ok {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if f.tar != nil {
		return f.at.read(f.tar), f.size, nil
	}
	r, err := os.Open(f.path)
	return r, f.size, err
}

// ReadFile reads a file of a few MiB at most.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	r, size, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > maxFile {
		return nil, fmt.Errorf("%s has %d bytes", name, size)
	}
	return io.ReadAll(r)
}

// Close ends the reading of tar files.
func (t *Tree) Close() error { return t.tars.Close() }

// span is a member of a tar file, in bytes.
type span struct {
	offset, size int64
	modTime      time.Time
}

func (s span) read(f *os.File) io.ReadCloser {
	return io.NopCloser(io.NewSectionReader(f, s.offset, s.size))
}

// indexTar finds the members of a tar file, without reading what is in them. A
// file that was cut off is an error.
func indexTar(ctx context.Context, f *os.File) (map[string]span, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, err
	}
	members := map[string]span{}
	for tr := tar.NewReader(f); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) && len(members) > 0 {
			return members, nil
		}
		if err != nil {
			return nil, err
		}
		at, err := f.Seek(0, io.SeekCurrent) // the reader of tar reads no further than it must
		if err != nil {
			return nil, err
		}
		if at+hdr.Size > size {
			return nil, fmt.Errorf("%s ends after %d of %d bytes: %w", hdr.Name, size-at, hdr.Size, io.ErrUnexpectedEOF)
		}
		if hdr.Typeflag == tar.TypeReg {
			members[path.Clean(hdr.Name)] = span{at, hdr.Size, hdr.ModTime}
		}
	}
}
