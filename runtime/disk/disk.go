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
	// Path that was asked for, and the device that it lies on.
	Path   string
	Device uint64
	// Total size, and what is free to root's services: without the file system's
	// own reserve, as the kubelet counts.
	Total, Free int64
	// Inodes in all, 0 where the file system knows no limit, and those free.
	Inodes, FreeInodes int64
}

// Measure measures the file system of path, or of the folder that path will be in
// once it is there.
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
		Path: path, Device: st.Dev,
		Total: int64(s.Blocks) * int64(s.Bsize), Free: int64(s.Bavail) * int64(s.Bsize),
		Inodes: int64(s.Files), FreeInodes: int64(s.Ffree),
	}, nil
}

// stagedPrefix is how containers/image names the folders in which it keeps the
// blobs of a pull until they are unpacked: storage/storage_dest.go.
const stagedPrefix = "container_images_"

// Staged is the bytes of blobs that pulls have fetched into dir so far. It is 0
// when that cannot be told.
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
