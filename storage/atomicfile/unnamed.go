package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Unnamed opens an unnamed temporary file in a directory: O_TMPFILE of open(2). The kernel frees it
// when the process ends. On a file system without O_TMPFILE, the file has a name until Unnamed
// returns.
func Unnamed(dir string) (*os.File, error) {
	if fd, err := openUnnamed(dir); err == nil {
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
