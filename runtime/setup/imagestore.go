package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// maxEntries is how many files of a folder are read to find its store.
const maxEntries = 10_000

// checkImageStore returns an error for a store in the image that each boot would refuse, as far as that is known before
// all its bytes are read: for one that is cut, for another architecture than this program, or without a number, since a
// node could not tell whether the one in its next image is newer.
func (h host) checkImageStore(name string) error {
	f, err := h.openImageStore(name)
	if err != nil || f == nil {
		return err
	}
	defer f.Close()
	store, err := storeIn(f)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	lock, err := stores.Probe(store, store.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if lock.Number == 0 {
		return fault.With(fmt.Errorf("%s: %w", name, pinset.ErrNoNumber), fault.Input,
			"build the store with a number, metadata.release of the appliance file")
	}
	return nil
}

// openImageStore opens the file of a store in the image: that of the path, or that in its folder; nil if the store is
// in parts.
func (h host) openImageStore(name string) (*os.File, error) {
	for _, folder := range []string{name, path.Join(name, layout.MediumDir)} {
		names, err := h.filesIn(folder)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, errFile):
			return h.openFile(name)
		case err != nil:
			return nil, err
		}
		store, err := stores.StoreAmong(names)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder, err)
		}
		if store != "" && !slices.Contains(names, store) {
			return nil, nil // it is in parts
		}
		if store != "" {
			f, err := h.openFile(path.Join(folder, store))
			if err != nil {
				err = fault.Wrap(stores.ErrNoStore, err)
			}
			return f, err
		}
	}
	return nil, fmt.Errorf("%s: %w", name, stores.ErrNoStore)
}

// errFile means that a path is not that of a folder.
var errFile = errors.New("not a folder")

// filesIn lists the files in a folder of the image.
func (h host) filesIn(folder string) ([]string, error) {
	f, err := h.open(folder, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err == nil && !fi.IsDir() {
		err = errFile
	}
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(maxEntries)
	if len(names) == maxEntries {
		return nil, fmt.Errorf("%s: %w: it has too many files; name that of the store", folder, stores.ErrNoStore)
	}
	return names, fault.Ignore(err, io.EOF)
}

// storeIn returns the store in a file, which may be an ISO.
func storeIn(f *os.File) (*io.SectionReader, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	image, err := iso9660.Open(f, fi.Size())
	if errors.Is(err, iso9660.ErrNotISO) {
		return io.NewSectionReader(f, 0, fi.Size()), nil
	}
	if err != nil {
		return nil, fault.Wrap(stores.ErrDamaged, err)
	}
	store, err := image.Find(path.Join(layout.MediumDir, layout.MediumStore))
	if err != nil {
		return nil, fault.Wrap(stores.ErrNoStore, err)
	}
	return io.NewSectionReader(f, store.Offset(), store.Size), nil
}
