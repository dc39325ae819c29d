package stores

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// image is the file of a store, read without mounting it.
type image struct {
	*squashfs.Reader
	file *os.File
}

func (i image) Close() error { return i.file.Close() }

// OpenFS opens a store that need not be mounted.
func OpenFS(e Extent) (FS, error) {
	i, err := openImage(e)
	if err != nil {
		return nil, err
	}
	return i, nil
}

func openImage(e Extent) (image, error) {
	f, err := os.Open(e.Path)
	if err != nil {
		return image{}, err
	}
	r, err := squashfs.OpenImage(io.NewSectionReader(f, e.Offset, e.Size), e.Size)
	if err != nil {
		return image{}, errors.Join(err, f.Close())
	}
	return image{r, f}, nil
}

// disc is a medium, or a file with what one holds.
type disc struct {
	*iso9660.Image
	file *os.File
}

func (d disc) Close() error { return d.file.Close() }

func (d disc) Extent(name string) (offset, size int64, err error) {
	f, err := d.Find(name)
	if err == nil && !f.Contiguous() {
		err = fmt.Errorf("%s: it is in pieces", name)
	}
	if err != nil {
		return 0, 0, err
	}
	return f.Offset(), f.Size, nil
}

// OpenMedium opens a medium, or a file with what one holds.
func OpenMedium(name string) (Medium, error) {
	image, f, err := iso9660.OpenFile(name)
	if err != nil {
		return nil, err
	}
	return disc{image, f}, nil
}
