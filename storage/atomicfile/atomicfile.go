package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/filelock"
)

// ErrNotFile says that what stands at a path is no file: a device or a folder. A
// rename would put a file in its place.
var ErrNotFile = errors.New("is no regular file")

// ErrBusy says that another process is writing the file.
var ErrBusy = errors.New("is being written by another run")

// File is a file that is being written. Its name appears with Commit.
type File struct {
	*os.File
	path string
	// written and begun are bytes that the kernel has, and that it was told to put on
	// the disk.
	written, begun int64
}

const writeBehind = 16 << 20 // bytes

// Write appends to the file, whose disk works along, so that Commit has little to
// wait for.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.written += int64(n)
	if f.written-f.begun >= writeBehind {
		// A file system that cannot do this does it all in Commit.
		_ = unix.SyncFileRange(int(f.Fd()), f.begun, f.written-f.begun, unix.SYNC_FILE_RANGE_WRITE)
		f.begun = f.written
	}
	return n, err
}

// maxPrefix bounds the part of a file's name that its temporary name repeats, in bytes, so
// that dot, prefix and random suffix stay below NAME_MAX (255).
const maxPrefix = 200

// Create starts the file at path. The caller ends it with Commit or Abort;
// Abort after Commit does nothing.
func Create(path string, perm fs.FileMode) (*File, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+name[:min(len(name), maxPrefix)]+".*")
	return start(f, err, path, perm)
}

// CreateVia starts the file at path under the temporary name temp, which is on
// the same file system. What a killed run left there is overwritten, so at most
// one such file is ever left; two writers at once are the caller's to prevent.
func CreateVia(temp, path string, perm fs.FileMode) (*File, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	return start(f, err, path, perm)
}

// CreateLarge is Create for a file whose remains would fill the disk: a run that
// was killed leaves them under one name, and the next one writes over them. It is
// ErrBusy while another run is at it.
func CreateLarge(path string, perm fs.FileMode) (*File, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".pinbox-partial")
	for {
		f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := filelock.Try(f); err != nil {
			if errors.Is(err, filelock.ErrLocked) {
				err = fmt.Errorf("%s %w", path, ErrBusy)
			}
			return nil, errors.Join(err, f.Close())
		}
		ours, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// The other run may have put it into its place between the two calls.
		if there, err := os.Lstat(temp); err == nil && os.SameFile(ours, there) {
			return start(f, f.Truncate(0), path, perm)
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

func replaceable(path string) error {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return fmt.Errorf("%s %w", path, ErrNotFile)
	}
	return nil
}

func start(f *os.File, err error, path string, perm fs.FileMode) (*File, error) {
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(perm); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &File{File: f, path: path}, nil
}

// Commit puts the file in place, durably.
func (f *File) Commit() error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return err
	}
	dir := filepath.Dir(f.path)
	f.path = ""
	if err := f.Close(); err != nil {
		return err
	}
	return SyncDir(dir)
}

// Abort removes what was written so far, unless it was committed.
func (f *File) Abort() {
	if f.path != "" {
		_ = os.Remove(f.Name()) // before another run may take it over
		_ = f.Close()
	}
}

// Write gives the file at path this content and mode, and says whether that
// changed anything.
func Write(path string, content []byte, perm fs.FileMode) (changed bool, err error) {
	if same(path, content, perm) {
		return false, nil
	}
	f, err := Create(path, perm)
	return finish(f, err, content)
}

// WriteVia is Write with a temporary name of the caller's, as CreateVia takes it:
// for folders in which every file counts.
func WriteVia(temp, path string, content []byte, perm fs.FileMode) (changed bool, err error) {
	if same(path, content, perm) {
		return false, nil
	}
	f, err := CreateVia(temp, path, perm)
	return finish(f, err, content)
}

func same(path string, content []byte, perm fs.FileMode) bool {
	old, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(old, content) {
		return false
	}
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().Perm() == perm
}

func finish(f *File, err error, content []byte) (bool, error) {
	if err != nil {
		return false, err
	}
	defer f.Abort()
	if _, err := f.File.Write(content); err != nil {
		return false, err
	}
	return true, f.Commit()
}

// SyncDir makes renames in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
