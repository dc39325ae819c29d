package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
)

// libraryDir is for what the library keeps while it writes a store.
const libraryDir = ".library"

// writeRoot has the library write the store, as a folder. The lock that it returns
// knows the unpacked sizes.
func writeRoot(ctx context.Context, o Options, s *stage, client *storage.Client, c contents) (lock pinset.Lock, made stored, err error) {
	store, err := root.New(s.path(StoreDir), s.path(libraryDir), o.stamp(c.images))
	if err != nil {
		return lock, made, err
	}
	defer func() { err = errors.Join(err, store.Abort()) }()
	if o.Hooks.Filling != nil {
		o.Hooks.Filling(makeLock(o.Appliance.Spec.Platform, c.sets, c.images).Totals())
	}
	if err := client.FillRoot(ctx, store, c.images, o.Hooks.Read); err != nil {
		return lock, made, err
	}
	lock = makeLock(o.Appliance.Spec.Platform, c.sets, c.images)
	if err := addOwn(store, lock, c); err != nil {
		return lock, made, err
	}
	if err := store.AddFile(nodeProgram, 0o755, c.binary); err != nil {
		return lock, made, err
	}
	if err := store.Close(); err != nil {
		return lock, made, err
	}
	size, err := folderSize(s.path(StoreDir))
	return lock, stored{name: StoreDir, size: size}, err
}

// folderSize gives the bytes of all regular files below dir.
func folderSize(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			bytes += fi.Size()
		}
		return err
	})
	return bytes, err
}

// checkRoot looks for what sums of files do not tell: the short names by which layers
// are mounted, which are symbolic links.
func checkRoot(dir string) (size int64, err error) {
	if size, err = folderSize(dir); err != nil {
		return 0, err
	}
	links, err := filepath.Glob(filepath.Join(dir, "overlay", "*", "link"))
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, link := range links {
		short, err := os.ReadFile(link)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		layer := filepath.Base(filepath.Dir(link))
		name := filepath.Join("overlay", "l", strings.TrimSpace(string(short)))
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != filepath.Join("..", layer, "diff") {
			errs = append(errs, fmt.Errorf("%s does not lead to layer %s", filepath.Join(StoreDir, name), layer))
		}
	}
	return size, errors.Join(errs...)
}
