package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
)

// ErrNotFile reports that a path names a device or a directory, which a rename would replace.
var ErrNotFile = fault.New(fault.Usage, "is not a regular file",
	"name a regular file with -o; `dd` copies an ISO to a disk")

// ErrBusy reports that another process is writing the file.
var ErrBusy = fault.New(fault.Usage, "is being written by another process",
	"wait for the other run, or give another name with -o")

// ErrForeign reports that the partial file of an earlier run is not this user's.
var ErrForeign = fault.New(fault.Usage, "is not a file of this user alone",
	"give a name with -o in a folder of your own, or have that file removed by who made it")

// File is a file that is being written. Commit gives it its name.
type File struct {
	*os.File
	path string
	// written and begun count the bytes that were written, and those of them whose writeback was
	// started.
	written, begun int64
	shared         []span // ranges of Share that are not passed yet
}

const writeBehind = 16 << 20 // bytes

// Write appends to the file. It starts the writeback of each 16 MiB, so that Commit has little left
// to sync.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.unshared(p, f.written)
	f.written += int64(n)
	if f.written-f.begun >= writeBehind {
		writeBack(f.File, f.begun, f.written-f.begun)
		f.begun = f.written
	}
	return n, err
}

// maxPrefix bounds the part of a file's name that its temporary name repeats, in bytes, so that
// dot, prefix and random suffix stay below NAME_MAX (255).
const maxPrefix = 200

// Create starts the file at path. The caller ends it with Commit, Rename or Abort; Abort after one of
// the others does nothing. The error is ErrNotFile if path names something other than a regular file.
func Create(path string, perm fs.FileMode) (*File, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+name[:min(len(name), maxPrefix)]+".*")
	return start(f, err, path, perm)
}

// CreateVia is Create with the temporary name temp, on the same file system. It overwrites the file
// that a killed process left there, so there is never more than one. The caller prevents two
// writers at the same time.
func CreateVia(temp, path string, perm fs.FileMode) (*File, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	return start(f, err, path, perm)
}

// CreateLarge is Create for a file of which killed processes must not leave several copies: the
// temporary name is fixed, and the next process overwrites it. The error is ErrBusy while another
// process is writing the file, and ErrForeign if another user has made something of that name.
func CreateLarge(path string, perm fs.FileMode) (*File, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".pinbox-partial")
	for {
		f, err := openPartial(temp)
		if errors.Is(err, fs.ErrExist) { // another process has made it
			continue
		}
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
		// Another process may have renamed it since it was opened.
		if named, err := os.Lstat(temp); err == nil && os.SameFile(ours, named) {
			return start(f, f.Truncate(0), path, perm)
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// openPartial opens the partial file of an earlier run, or makes a new one. In a folder such as /tmp
// another user can make a file of that name, or a link to a file of this user.
func openPartial(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s %w: %w", name, ErrForeign, err)
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	stat := fi.Sys().(*syscall.Stat_t) // the type on Linux
	if !fi.Mode().IsRegular() || stat.Uid != uint32(os.Geteuid()) || stat.Nlink > 1 {
		return nil, errors.Join(fmt.Errorf("%s %w", name, ErrForeign), f.Close())
	}
	return f, nil
}

func replaceable(path string) error {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return fmt.Errorf("%s %w", path, ErrNotFile)
	}
	return nil
}

func start(f *os.File, err error, path string, perm fs.FileMode) (*File, error) {
	if f == nil {
		return nil, err
	}
	if err == nil {
		err = f.Chmod(perm)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()), f.Close()) // Close releases the lock of CreateLarge
	}
	return &File{File: f, path: path}, nil
}

// Commit syncs the file, renames it to its path, and syncs the directory as Published does.
func (f *File) Commit() error {
	path := f.path
	if err := f.Rename(); err != nil {
		return err
	}
	return Published(path)
}

// Rename is Commit for a file that can be made again: it does not sync the directory. After a power cut there is the
// whole file, or what was there before. On btrfs, to sync the directory writes as much metadata again as to sync the
// file.
func (f *File) Rename() error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return err
	}
	f.path = ""
	return f.Close()
}

// Abort removes the file, unless it was committed.
func (f *File) Abort() {
	if f.path != "" {
		_ = os.Remove(f.Name()) // before Close releases the lock: another process may overwrite the file then
		_ = f.Close()
	}
}

// Write sets content and mode of the file at path, and reports whether either was different.
func Write(path string, content []byte, perm fs.FileMode) (changed bool, err error) {
	if same(path, content, perm) {
		return false, nil
	}
	f, err := Create(path, perm)
	return finish(f, err, content)
}

// WriteVia is Write with the temporary name temp, as CreateVia: for directories of which programs
// read every file.
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

// Published syncs the directory of a file or folder that was renamed to path. If that fails, the file is complete and
// stays, but a crash may still take it: the error says so, since a success promises more.
func Published(path string) error {
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s is complete, but may be lost if this machine stops: %w", path, err)
	}
	return nil
}

// SyncDir syncs a directory, so that renames in it survive a crash.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
