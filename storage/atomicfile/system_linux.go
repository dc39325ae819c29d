package atomicfile

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// writeBack starts the writeback of a part of a file. If the file system cannot do this, Commit syncs everything.
func writeBack(f *os.File, offset, size int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, size, unix.SYNC_FILE_RANGE_WRITE)
}

// waitBack waits until the writeback of a part of a file has ended. An error of the disk is returned, since a later
// sync would not know of it.
func waitBack(f *os.File, offset, size int64) error {
	if size == 0 { // all, for the kernel
		return nil
	}
	err := unix.SyncFileRange(int(f.Fd()), offset, size, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
	switch err {
	case unix.EIO, unix.ENOSPC, unix.EDQUOT:
		return &os.PathError{Op: "sync_file_range", Path: f.Name(), Err: err}
	}
	return nil
}

// unnamed opens a file without a name in a folder: O_TMPFILE of open(2). It is nil if the file system or the kernel
// has no such files, or none that could get a name.
func unnamed(folder *os.File) *os.File {
	fd, err := unix.Openat(int(folder.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil
	}
	if unix.Access(ownFiles, unix.F_OK) != nil {
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), filepath.Join(folder.Name(), "unnamed"))
}

// openDirect opens a folder; ELOOP if there is a link in its path: openat2(2).
func openDirect(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ownFiles has a link for each open file of this process: proc(5).
const ownFiles = "/proc/self/fd"

// link gives a file without a name one that nothing has: linkat(2).
func link(f *os.File, tree *os.Root, name string) error {
	dir, err := tree.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	own := filepath.Join(ownFiles, strconv.FormatUint(uint64(f.Fd()), 10))
	if err := unix.Linkat(unix.AT_FDCWD, own, int(dir.Fd()), filepath.Base(name), unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.PathError{Op: "linkat", Path: filepath.Join(tree.Name(), name), Err: err}
	}
	return nil
}

// cloneRange makes blocks of a file those of another: FICLONERANGE of ioctl_ficlonerange(2).
func cloneRange(to, from *os.File, offset, at, size int64) error {
	return unix.IoctlFileCloneRange(int(to.Fd()), &unix.FileCloneRange{
		Src_fd: int64(from.Fd()), Src_offset: uint64(offset), Src_length: uint64(size), Dest_offset: uint64(at),
	})
}
