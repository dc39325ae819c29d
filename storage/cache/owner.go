package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrWritable reports that other users can change the cache.
var ErrWritable = errors.New("other users can change it")

// checkOwners checks who can write to the folders of a cache. In the folder itself, others may
// create files if it is sticky, as /tmp is.
func checkOwners(dir, layers string) error {
	encodings, err := os.ReadDir(layers)
	if err != nil {
		return err
	}
	all := []string{layers}
	for _, e := range encodings {
		all = append(all, filepath.Join(layers, e.Name()))
	}
	if err := checkOwner(dir, fs.ModeSticky); err != nil {
		return err
	}
	for _, folder := range all {
		if err := checkOwner(folder, 0); err != nil {
			return err
		}
	}
	return nil
}

// checkOwner returns ErrWritable for a folder that belongs to a user other than this one and root, or
// that a group or others can write to, unless it has the mode harmless.
func checkOwner(folder string, harmless fs.FileMode) error {
	fi, err := os.Stat(folder)
	if err != nil {
		return err
	}
	owner := fi.Sys().(*syscall.Stat_t).Uid // the type on Linux
	if owner != 0 && owner != uint32(os.Geteuid()) {
		return fmt.Errorf("%s: %w: it belongs to user %d", folder, ErrWritable, owner)
	}
	if fi.Mode().Perm()&0o022 != 0 && fi.Mode()&harmless == 0 {
		return fmt.Errorf("%s: %w: its mode is %04o; run `chmod go-w %[1]s`", folder, ErrWritable, fi.Mode().Perm())
	}
	return nil
}
