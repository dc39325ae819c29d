package neighbour

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Keep keeps a file of the folder dir of the stores for neighbours, such as a thin delta, of which the node itself
// needs only the store that it has made. It is not copied. A file that is larger than the budget, in bytes, is not
// kept.
func Keep(dir, file string, id digest.Digest, budget int64) error {
	fi, err := os.Stat(file)
	if err != nil {
		return err
	}
	if fi.Size() > budget {
		return Trim(dir, budget, "")
	}
	kept := filepath.Join(dir, keptDir)
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return err
	}
	if err := Trim(dir, budget-fi.Size(), id); err != nil {
		return err
	}
	if err := os.Link(file, filepath.Join(kept, id.Encoded())); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return atomicfile.SyncDir(kept)
}

// Trim removes kept files, the oldest first, until those other than except have no more bytes than the budget.
func Trim(dir string, budget int64, except digest.Digest) error {
	kept := filepath.Join(dir, keptDir)
	entries, err := os.ReadDir(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && (except == "" || e.Name() != except.Encoded()) {
			files = append(files, fi)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	var used int64
	for _, fi := range files {
		if used += fi.Size(); used > budget {
			used -= fi.Size()
			err = errors.Join(err, os.RemoveAll(filepath.Join(kept, fi.Name())))
		}
	}
	return err
}
