package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Layers reads the records of all layers of the stores at these roots. A root
// without records has no layers.
func Layers(roots ...string) (pinset.Layers, error) {
	layers := pinset.Layers{}
	var errs []error
	for _, root := range roots {
		err := layout.Open(os.DirFS(root)).Layers(func(l layout.Layer) error {
			if !l.Incomplete() { // a pull that was cut off
				layers.Add(l.ID, l.Parent, l.UncompressedDigest, l.CompressedDigest)
			}
			return nil
		})
		if ifThere(err) != nil {
			errs = append(errs, fmt.Errorf("%s: %w", root, err))
		}
	}
	return layers, errors.Join(errs...)
}

func readLocks(files []string) ([]pinset.Lock, error) {
	var locks []pinset.Lock
	var errs []error
	for _, file := range files {
		lock, err := readLock(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // an empty slot
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		locks = append(locks, lock)
	}
	return locks, errors.Join(errs...)
}

func readLock(file string) (pinset.Lock, error) {
	f, err := os.Open(file)
	if err != nil {
		return pinset.Lock{}, err
	}
	defer f.Close()
	lock, err := pinset.DecodeLock(f)
	if err != nil {
		return pinset.Lock{}, fmt.Errorf("%s: %w", file, err)
	}
	return lock, nil
}

// Disk is where a node keeps images.
type Disk struct {
	// Slots are the mount points of read-only stores.
	Slots []string
	// Sets is the folder of the sets.
	Sets string
	// Staging is where pulls keep blobs until they are unpacked.
	Staging string
}

// Locks of the slots' stores, and those beside the sets.
func (d Disk) Locks() (stores, beside []pinset.Lock, err error) {
	var files []string
	for _, slot := range d.Slots {
		files = append(files, filepath.Join(slot, layout.OwnLock))
	}
	stores, storesErr := readLocks(files)
	files, err = filepath.Glob(filepath.Join(d.Sets, layout.LockPattern))
	beside, besideErr := readLocks(files)
	return stores, beside, errors.Join(storesErr, err, besideErr)
}

// Layers of the store at root and of the slots'.
func (d Disk) Layers(root string) (pinset.Layers, error) {
	return Layers(append([]string{root}, d.Slots...)...)
}

// Space at root, and where blobs are staged.
func (d Disk) Space(root string) (store, staging disk.Space, err error) {
	if store, err = disk.Measure(root); err != nil {
		return store, staging, err
	}
	staging, err = disk.Measure(d.Staging)
	return store, staging, err
}

// Staged bytes of the pulls that run.
func (d Disk) Staged() int64 { return disk.Staged(d.Staging) }
