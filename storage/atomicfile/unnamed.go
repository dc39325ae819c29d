package atomicfile

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Unnamed opens a file in a folder that has no name there, for what only this process
// needs: nothing of it is left, however the process ends. On a file system without
// O_TMPFILE, open(2), the file has a name until this returns.
func Unnamed(dir string) (*os.File, error) {
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		return os.NewFile(uintptr(fd), filepath.Join(dir, "unnamed")), nil
	}
	f, err := os.CreateTemp(dir, ".unnamed-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
