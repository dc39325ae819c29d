package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// writeBack starts the writeback of a part of a file. If the file system cannot do this, Commit syncs everything.
func writeBack(f *os.File, offset, size int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, size, unix.SYNC_FILE_RANGE_WRITE)
}

// openUnnamed opens an unnamed file in a directory: O_TMPFILE of open(2).
func openUnnamed(dir string) (fd int, err error) {
	return unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
}

// cloneRange makes blocks of a file those of another: FICLONERANGE of ioctl_ficlonerange(2).
func cloneRange(to, from *os.File, offset, at, size int64) error {
	return unix.IoctlFileCloneRange(int(to.Fd()), &unix.FileCloneRange{
		Src_fd: int64(from.Fd()), Src_offset: uint64(offset), Src_length: uint64(size), Dest_offset: uint64(at),
	})
}
