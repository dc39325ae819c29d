package atomicfile

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
)

// ErrNotFile reports that a path names a device or a directory, which a rename would replace.
var ErrNotFile = fault.New(fault.Usage, "is not a regular file",
	"name a regular file; `dd` copies an ISO to a disk")

// ErrBusy reports that another process is writing the file.
var ErrBusy = fault.New(fault.Usage, "is being written by another process",
	"wait for the other run, or give another name with -o")

// ErrForeign reports that the partial file of an earlier run is not this user's.
var ErrForeign = fault.New(fault.Usage, "is not a file of this user alone",
	"give a name with -o in a folder of your own, or have that file removed by who made it")

// ErrLink reports that a folder of a path is a link.
var ErrLink = fault.New(fault.Usage, "is a link, or behind one", "name the folder that the link leads to")

// ErrMounted reports that a file is a mount of its own, as of a container: the kernel renames nothing to it.
var ErrMounted = fault.New(fault.Other,
	"is a mount of its own, which no other file replaces: mount its folder instead", "")

// File is a file that is being written. Commit gives it its name.
type File struct {
	*os.File
	tree *os.Root
	name string // in the tree
	temp string // the temporary name, right in the root of the tree; "" while the file has none
	done bool
	// written, begun and ended count the bytes that were written, those of them whose writeback was started, and those
	// whose writeback has ended.
	written, begun, ended int64
	shared                []span // ranges of Share that are not passed yet
}

const writeBehind = 4 << 20 // bytes

// Write appends to the file. It starts the writeback of each 4 MiB, and waits for that of those before. So the disk is
// never far behind: what has been written is progress, and a caller that is interrupted ends soon, which it does not in
// a sync of what a slow disk has yet to write.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.unshared(p, f.written)
	f.written += int64(n)
	if f.written-f.begun < writeBehind || err != nil {
		return n, err
	}
	writeBack(f.File, f.begun, f.written-f.begun)
	err = waitBack(f.File, f.ended, f.begun-f.ended)
	f.ended, f.begun = f.begun, f.written
	return n, err
}

// Flush brings a file to its disk, in parts, between which the context ends it. Commit or Sync has little left then.
func Flush(ctx context.Context, f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < fi.Size(); at += writeBehind {
		writeBack(f, at, 2*writeBehind)
		if err := errors.Join(ctx.Err(), waitBack(f, at, writeBehind)); err != nil {
			return err
		}
	}
	return nil
}

// Create starts the file at path. The caller ends it with Commit, Rename or Abort; Abort after one of
// the others does nothing. The error is ErrNotFile if path names something other than a regular file.
//
// Until then the file has no name: a process that is killed leaves nothing. On a file system that has no such files
// it has a name that nobody can foresee, as it has for a moment if Commit replaces a file.
func Create(path string, perm fs.FileMode) (*File, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}
	tree, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	f, err := create(tree, filepath.Base(path), perm)
	if err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return f, nil
}

// create starts a file of a tree, which is closed with it.
func create(tree *os.Root, name string, perm fs.FileMode) (*File, error) {
	f := &File{tree: tree, name: name}
	folder, err := tree.Open(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	if f.File = unnamed(folder); f.File == nil {
		f.temp = f.random()
		if f.File, err = createNew(tree, f.temp); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(tree.Name(), name), err)
		}
	}
	if err := f.Chmod(perm); err != nil {
		f.remove()
		return nil, errors.Join(err, f.File.Close())
	}
	return f, nil
}

// createNew makes a file that only this user can read, of a name that nothing has, not even a link to nothing.
func createNew(tree *os.Root, name string) (*os.File, error) {
	return tree.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func replaceable(path string) error {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return fmt.Errorf("%s %w", path, ErrNotFile)
	}
	return nil
}

// maxPrefix bounds the part of a file's name that its temporary name repeats, in bytes, so that
// dot, prefix and random suffix stay below NAME_MAX (255).
const maxPrefix = 200

// temporary is the start of the temporary names for a file.
func temporary(name string) string {
	base := filepath.Base(name)
	return "." + base[:min(len(base), maxPrefix)] + "."
}

// random is a temporary name.
func (f *File) random() string { return temporary(f.name) + rand.Text() }

// CreateLarge is Create for a file of which killed processes must not leave several copies: the
// temporary name is Partial, and the next process overwrites it. The error is ErrBusy while another
// process is writing the file, and ErrForeign if another user has made something of that name.
func CreateLarge(path string, perm fs.FileMode) (*File, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}
	tree, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	f := &File{tree: tree, name: filepath.Base(path), temp: filepath.Base(Partial(path))}
	if f.File, err = lockPartial(tree, f.temp); err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			err = fmt.Errorf("%s %w", path, ErrBusy)
		}
		return nil, errors.Join(err, tree.Close())
	}
	if err := errors.Join(f.Truncate(0), f.Chmod(perm)); err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}

// lockPartial opens the partial file, and locks it.
func lockPartial(tree *os.Root, name string) (*os.File, error) {
	for {
		f, err := openPartial(tree, name)
		if errors.Is(err, fs.ErrExist) { // another process has made it
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := filelock.Try(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		ours, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// Another process may have renamed it since it was opened.
		if named, err := tree.Lstat(name); err == nil && os.SameFile(ours, named) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// PartialSuffix ends the names of partial files.
const PartialSuffix = ".pinbox-partial"

// Partial is the path at which CreateLarge writes the file until it is committed.
func Partial(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+PartialSuffix)
}

// openPartial opens the partial file of an earlier run, or makes a new one. In a folder such as /tmp
// another user can make a file of that name, or a link to a file of this user.
func openPartial(tree *os.Root, name string) (*os.File, error) {
	path := filepath.Join(tree.Name(), name)
	if fi, err := tree.Lstat(name); err == nil && !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %w", path, ErrForeign)
	}
	f, err := tree.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return createNew(tree, name)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s %w: %w", path, ErrForeign, err)
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
		return nil, errors.Join(fmt.Errorf("%s %w", path, ErrForeign), f.Close())
	}
	return f, nil
}

// Commit syncs the file, gives it its name, and syncs the directory as Published does.
func (f *File) Commit() error {
	if err := f.publish(); err != nil {
		return err
	}
	dir, err := f.tree.Open(filepath.Dir(f.name))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	return errors.Join(notSynced(filepath.Join(f.tree.Name(), f.name), err), f.close())
}

// Rename is Commit for a file that can be made again: it does not sync the directory. After a power cut there is the
// whole file, or what was there before. On btrfs, to sync the directory writes as much metadata again as to sync the
// file.
func (f *File) Rename() error {
	if err := f.publish(); err != nil {
		return err
	}
	return f.close()
}

// publish syncs the file, and gives it its name.
func (f *File) publish() error {
	if err := f.Sync(); err != nil {
		return err
	}
	if f.temp == "" {
		err := link(f.File, f.tree, f.name)
		if !errors.Is(err, fs.ErrExist) { // link(2) replaces nothing
			return err
		}
		temp := f.random()
		if err := link(f.File, f.tree, temp); err != nil {
			return err
		}
		f.temp = temp
	}
	err := f.tree.Rename(f.temp, f.name)
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%s %w", filepath.Join(f.tree.Name(), f.name), ErrMounted)
	}
	if err != nil {
		return err
	}
	f.temp = ""
	return nil
}

// Abort removes the file, unless it was committed.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.remove() // before close releases the lock of CreateLarge: another process may overwrite the file then
	_ = f.close()
}

func (f *File) remove() {
	if f.temp != "" {
		_ = f.tree.Remove(f.temp)
	}
}

func (f *File) close() error {
	f.done = true
	return errors.Join(f.File.Close(), f.tree.Close())
}

// Write sets content and mode of the file at path, and reports whether either was different.
func Write(path string, content []byte, perm fs.FileMode) (changed bool, err error) {
	if err := replaceable(path); err != nil {
		return false, err
	}
	tree, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	defer tree.Close()
	return write(tree, filepath.Base(path), content, perm)
}

// WriteNew writes and syncs a file that is not there yet, in a folder that appears later as a whole: whoever publishes
// the folder syncs it once for all its files.
func WriteNew(path string, content []byte, perm fs.FileMode) error {
	tree, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer tree.Close()
	f, err := createNew(tree, filepath.Base(path))
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(perm), f.Sync(), f.Close())
}

// WriteIn is Write for a file of a tree: the temporary file, if there is one, is right in the root of the tree, and
// not in a folder of which programs read each file. No link leads out of the tree, so that it may be an image or a
// medium of somebody else, and the file is not written through a link. The caller prevents two writers at the same
// time: what a process has left that was killed is removed.
func WriteIn(tree *os.Root, name string, content []byte, perm fs.FileMode) (changed bool, err error) {
	if fi, err := tree.Lstat(name); err == nil && !fi.Mode().IsRegular() && fi.Mode().Type() != fs.ModeSymlink {
		return false, fmt.Errorf("%s %w", filepath.Join(tree.Name(), name), ErrNotFile)
	}
	if err := sweep(tree, name); err != nil {
		return false, err
	}
	changed, err = write(tree, name, content, perm)
	if !errors.Is(err, syscall.EXDEV) {
		return changed, err
	}
	folder, err := tree.OpenRoot(filepath.Dir(name)) // the folder is a mount of its own
	if err != nil {
		return false, err
	}
	defer folder.Close()
	return WriteIn(folder, filepath.Base(name), content, perm)
}

// OpenFolder opens a folder for WriteIn to which no link leads: who has made a medium does not choose where root
// writes. The error is ErrLink if there is one.
func OpenFolder(path string) (*os.Root, error) {
	direct, err := openDirect(path)
	if errors.Is(err, syscall.ELOOP) {
		err = fmt.Errorf("%s %w", path, ErrLink)
	}
	if err != nil {
		return nil, err
	}
	defer direct.Close()
	tree, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	want, wantErr := direct.Stat()
	got, err := tree.Stat(".")
	if err = errors.Join(err, wantErr); err == nil && !os.SameFile(got, want) { // somebody has just made a link
		err = fmt.Errorf("%s %w", path, ErrLink)
	}
	if err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// WriteOutside is WriteIn for a file of the machine: a temporary file is not in the folder of the file, but in the
// one above.
func WriteOutside(path string, content []byte, perm fs.FileMode) (changed bool, err error) {
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	tree, err := os.OpenRoot(filepath.Dir(folder))
	if err != nil {
		return false, err
	}
	defer tree.Close()
	return WriteIn(tree, filepath.Join(filepath.Base(folder), filepath.Base(path)), content, perm)
}

// sweep removes the temporary files of processes that were killed.
func sweep(tree *os.Root, name string) error {
	left, err := fs.Glob(tree.FS(), escape(temporary(name))+strings.Repeat("[A-Z2-7]", len(rand.Text())))
	for _, name := range left {
		err = errors.Join(err, tree.Remove(name))
	}
	return err
}

// escape returns a pattern of path.Match that only a name itself matches.
func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

func write(tree *os.Root, name string, content []byte, perm fs.FileMode) (changed bool, err error) {
	if same(tree, name, content, perm) {
		return false, nil
	}
	own, err := tree.OpenRoot(".") // which is closed with the file
	if err != nil {
		return false, err
	}
	f, err := create(own, name, perm)
	if err != nil {
		return false, errors.Join(err, own.Close())
	}
	defer f.Abort()
	if _, err := f.File.Write(content); err != nil {
		return false, err
	}
	return true, f.Commit()
}

// same reports whether a file has this content. No more is read of one that is larger.
func same(tree *os.Root, name string, content []byte, perm fs.FileMode) bool {
	fi, err := tree.Lstat(name)
	if err != nil || fi.Mode() != perm || fi.Size() != int64(len(content)) { // the type, too
		return false
	}
	f, err := tree.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return false
	}
	defer f.Close()
	old, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	return err == nil && bytes.Equal(old, content)
}

// Published syncs the directory of a file or folder that was renamed to path. If that fails, the file is complete and
// stays, but a crash may still take it: the error says so, since a success promises more.
func Published(path string) error {
	return notSynced(path, SyncDir(filepath.Dir(path)))
}

func notSynced(path string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s is complete, but may be lost if this machine stops: %w", path, err)
	}
	return err
}

// SyncDir syncs a directory, so that renames in it survive a crash.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
