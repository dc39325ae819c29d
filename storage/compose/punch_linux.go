package compose

import (
	"os"

	"golang.org/x/sys/unix"
)

// punch frees a part of a file. A file system that cannot do this frees the file when it is closed.
func punch(f *os.File, start, size int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, start, size)
}
