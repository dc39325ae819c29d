package iso

import (
	"os"

	"golang.org/x/sys/unix"
)

// clone shares all blocks of a file with another one: FICLONE of ioctl_ficlone(2). It reports whether the file system
// can do this.
func clone(to, from *os.File) bool { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil }
