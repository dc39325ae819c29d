package main

import (
	"errors"
	"os"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// image is the file of a store, read without mounting it.
type image struct {
	*squashfs.Reader
	file *os.File
}

func (i image) Close() error { return i.file.Close() }

func openStore(name string) (stores.Image, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := squashfs.OpenImage(f, fi.Size())
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return image{r, f}, nil
}
