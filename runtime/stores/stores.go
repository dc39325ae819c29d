package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Layers reads the layers of the stores at these graph roots. A graph root without records has no
// layers.
func Layers(roots ...string) (pinset.Layers, error) {
	layers := pinset.Layers{}
	var errs []error
	for _, dir := range roots {
		err := layout.Open(os.DirFS(dir)).Layers(func(l layout.Layer) error {
			if !l.Incomplete() { // of an interrupted pull
				layers.Add(l.ID, l.Parent, l.UncompressedDigest, l.CompressedDigest)
			}
			return nil
		})
		if fault.Ignore(err, fs.ErrNotExist) != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
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
			continue // no store is mounted there
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

// Disk reads what a pass needs of the node's file systems.
type Disk struct {
	// Slots are the mount points of read-only stores. CRI-O does not have those that are Hidden from it.
	Slots, Hidden []string
	// RunRoots are the folders with records of the main store that do not survive a reboot. They may be missing.
	RunRoots []string
	// Sets is the folder of sets.
	Sets string
	// Staging is the folder in which CRI-O's pulls keep blobs until they are unpacked.
	Staging string
}

// Locks reads the locks of the mounted stores, and the locks in the folder of sets.
func (d Disk) Locks() (stores, sets []pinset.Lock, err error) {
	var files []string
	for _, slot := range d.Slots {
		files = append(files, filepath.Join(slot, layout.OwnLock))
	}
	stores, storesErr := readLocks(files)
	files, err = filepath.Glob(filepath.Join(d.Sets, layout.LockPattern))
	sets, setsErr := readLocks(files)
	return stores, sets, errors.Join(storesErr, err, setsErr)
}

// visible are the slots that CRI-O has.
func (d Disk) visible() []string {
	return slices.DeleteFunc(slices.Clone(d.Slots), func(slot string) bool { return slices.Contains(d.Hidden, slot) })
}

// Images reads the images of the mounted stores.
func (d Disk) Images() ([]pinset.StoredImage, error) { return Images(d.Slots...) }

// Layers reads the layers of the main store at graphRoot and of the mounted stores that CRI-O has.
func (d Disk) Layers(graphRoot string) (pinset.Layers, error) {
	return Layers(append([]string{graphRoot}, d.visible()...)...)
}

// InUse returns the IDs of the images that containers of the main store at graphRoot have: those of podman, too, which
// CRI-O does not list.
func (d Disk) InUse(graphRoot string) (map[string]bool, error) {
	used := map[string]bool{}
	var errs []error
	for _, dir := range append([]string{graphRoot}, d.RunRoots...) {
		err := layout.Open(os.DirFS(dir)).Containers(func(c layout.Container) error {
			used[c.Image] = true
			return nil
		})
		if fault.Ignore(err, fs.ErrNotExist) != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return used, errors.Join(errs...)
}

// Space returns the space at graphRoot and in the staging folder.
func (d Disk) Space(graphRoot string) (store, staging disk.Space, err error) {
	if store, err = disk.Measure(graphRoot); err != nil {
		return store, staging, err
	}
	staging, err = disk.Measure(d.Staging)
	return store, staging, err
}

// Staged returns the bytes that running pulls have staged.
func (d Disk) Staged() int64 { return disk.Staged(d.Staging) }
