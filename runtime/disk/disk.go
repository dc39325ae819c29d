package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Space of a file system, in bytes and inodes.
type Space struct {
	// Path that was measured, and the device that it is on.
	Path   string
	Device uint64
	// Total and free bytes. The reserve of the file system for root is not free, as for the
	// kubelet.
	Total, Free int64
	// Inodes in total, 0 if the file system has no limit, and free ones.
	Inodes, FreeInodes int64
}

// Measure returns the space of the file system of path. If path does not exist, it measures at the
// nearest folder above it that exists.
func Measure(path string) (Space, error) {
	dir := path
	for {
		_, err := os.Stat(dir)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return Space{}, err
		}
		dir = filepath.Dir(dir)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return Space{}, fmt.Errorf("stat %s: %w", dir, err)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Space{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return Space{
		Path: path, Device: uint64(st.Dev),
		Total: int64(s.Blocks) * int64(s.Bsize), Free: int64(s.Bavail) * int64(s.Bsize),
		Inodes: int64(s.Files), FreeInodes: int64(s.Ffree),
	}, nil
}

// stagedPrefix is how containers/image names the folders in which it keeps the
// blobs of a pull until they are unpacked: storage/storage_dest.go.
const stagedPrefix = "container_images_"

// Staged returns the bytes of blobs that running pulls have fetched into dir; 0 if dir cannot be
// read.
func Staged(dir string) int64 {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var sum int64
	for _, f := range folders {
		if !strings.HasPrefix(f.Name(), stagedPrefix) {
			continue
		}
		blobs, err := os.ReadDir(filepath.Join(dir, f.Name()))
		if err != nil {
			continue // the pull has just ended
		}
		for _, b := range blobs {
			if fi, err := b.Info(); err == nil {
				sum += fi.Size()
			}
		}
	}
	return sum
}
