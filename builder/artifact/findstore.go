package artifact

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/root"
)

// FindStore returns the position of the squashfs store in a folder or an ISO. File is "" if there is none.
func FindStore(name string) (root.StoreFile, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return root.StoreFile{}, err
	}
	if fi.IsDir() {
		for _, file := range []string{DeltaStoreFile, ThinStoreFile, StoreFile} {
			store := filepath.Join(name, file)
			if fi, err := os.Stat(store); err == nil {
				return root.StoreFile{File: store, Size: fi.Size()}, nil
			}
		}
		return root.StoreFile{}, nil
	}
	image, f, err := iso.OpenFile(name)
	if errors.Is(err, input.ErrNotRegular) {
		return root.StoreFile{}, err
	}
	if err != nil {
		return root.StoreFile{}, nil // it is a lock
	}
	defer f.Close()
	inside, err := image.Find(path.Join(iso.Dir, ISOStore))
	if err != nil || !inside.Contiguous() {
		return root.StoreFile{}, nil
	}
	return root.StoreFile{File: name, Offset: inside.Offset(), Size: inside.Size}, nil
}
