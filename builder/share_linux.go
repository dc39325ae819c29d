package builder

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sharesBlocks reports whether files of the file system can share blocks (FICLONERANGE); the ISO then
// shares the blocks of the store.
func sharesBlocks(dir string) bool {
	var s unix.Statfs_t
	for unix.Statfs(dir, &s) != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return int64(s.Type) == unix.BTRFS_SUPER_MAGIC || int64(s.Type) == unix.XFS_SUPER_MAGIC
}
