package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
)

// host is the file system of the machine: "/", or the folder of an image. Somebody else may have made the image: its
// links lead where they do once it runs, never out of it; nothing of it is run, and no file of it is read without a
// limit.
type host struct {
	root string
	// live is whether the machine runs, and systemd with it.
	live bool
}

// open opens a file or a folder of the machine, as in a chroot: openat2(2).
func (h host) open(name string, flags uint64) (*os.File, error) {
	if h.root == "/" { // also in a container that lacks openat2
		return os.OpenFile(name, int(flags), 0)
	}
	root, err := os.Open(h.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(root.Fd()), "./"+path.Clean(name), &how)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Open is that of an fs.FS; a pipe does not block it.
func (h host) Open(name string) (fs.File, error) {
	return h.open("/"+name, unix.O_RDONLY|unix.O_NONBLOCK)
}

// folder opens a folder of the machine. Whatever is done in it goes through no link.
func (h host) folder(dir string) (*os.Root, error) {
	f, err := h.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, h.explain(dir, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if h.root == "/" {
		return os.OpenRoot(dir)
	}
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// explain says which link leads nowhere, such as /usr/local of ostree's images.
func (h host) explain(name string, err error) error {
	for at := path.Clean(name); at != "/"; at = path.Dir(at) {
		parent, parentErr := h.open(path.Dir(at), unix.O_PATH|unix.O_DIRECTORY)
		if parentErr != nil {
			continue
		}
		target := make([]byte, unix.PathMax)
		n, linkErr := unix.Readlinkat(int(parent.Fd()), path.Base(at), target)
		_ = parent.Close()
		if linkErr != nil {
			return err
		}
		return fmt.Errorf("%s is a link to %s, which the image does not have", at, target[:n])
	}
	return err
}

// look asks something about a file of the machine, such as os.Root.Lstat.
func look[T any](h host, name string, ask func(*os.Root, string) (T, error)) (answer T, err error) {
	err = h.in(name, func(folder *os.Root, base string) error {
		answer, err = ask(folder, base)
		return err
	})
	return answer, err
}

// exists reports whether the machine has a file.
func (h host) exists(name string) bool {
	_, err := look(h, name, (*os.Root).Lstat)
	return err == nil
}

// openFile opens a regular file of the machine. A link to /dev/null, by which an administrator masks a file, is none.
func (h host) openFile(name string) (*os.File, error) {
	f, err := h.open(name, unix.O_RDONLY|unix.O_NONBLOCK) // a pipe would block
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &stat)
	switch {
	case err == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG:
		return f, nil
	case err == nil && stat.Mode&unix.S_IFMT == unix.S_IFCHR && stat.Rdev == unix.Mkdev(1, 3):
		err = &os.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case err == nil:
		err = fmt.Errorf("%s is no regular file", name)
	}
	return nil, errors.Join(err, f.Close())
}

// maxFile limits a file that is read, in bytes: in the image of somebody else, it may be anything. Those of packages
// have a few thousand.
const maxFile = 1 << 20

// read reads a file of the machine of at most maxFile bytes; it is empty if there is none.
func (h host) read(name string) ([]byte, error) {
	f, err := h.openFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s: it has more than %d bytes", name, maxFile)
	}
	return content, err
}

// write replaces a file of the machine. Its temporary file is in the folder above, since CRI-O reads every file of its
// own; if the folder is a link, it is in the folder that the link leads to.
func (h host) write(f provision.File) error {
	name, at, rest := f.Path, f.Path, ""
	if fi, err := look(h, path.Dir(name), (*os.Root).Lstat); err == nil && fi.IsDir() {
		at, rest = path.Dir(name), path.Base(name)
	}
	return h.in(at, func(folder *os.Root, base string) error {
		_, err := atomicfile.WriteIn(folder, path.Join(base, rest), f.Content, fs.FileMode(f.Mode))
		return err
	})
}

// makeDirectory makes a directory that is not there yet.
func (h host) makeDirectory(name string) error {
	err := h.in(name, func(folder *os.Root, base string) error { return folder.Mkdir(base, 0o755) })
	return fault.Ignore(err, fs.ErrExist)
}

// makeLink makes a link that is not there yet.
func (h host) makeLink(l provision.Link) error {
	err := h.in(l.Path, func(folder *os.Root, base string) error { return folder.Symlink(l.Target, base) })
	return fault.Ignore(err, fs.ErrExist)
}

// removeFile removes a file or a link; none is fine.
func (h host) removeFile(name string) error {
	if !h.exists(name) { // to remove what is not there fails, too, on a read-only file system
		return nil
	}
	return h.in(name, (*os.Root).Remove)
}

// removeDirectory removes a directory if it is empty.
func (h host) removeDirectory(name string) error {
	return fault.Ignore(fault.Ignore(h.in(name, (*os.Root).Remove), syscall.ENOTEMPTY), fs.ErrNotExist)
}

// in does something in the folder of a file. Its error names the file.
func (h host) in(name string, do func(folder *os.Root, base string) error) error {
	folder, err := h.folder(path.Dir(name))
	if err == nil {
		defer folder.Close()
		err = do(folder, path.Base(name))
	}
	if errors.Is(err, syscall.EROFS) {
		err = ErrReadOnly
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
