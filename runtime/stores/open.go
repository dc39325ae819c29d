package stores

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// squashfsFile is a store in a squashfs image, read without mounting it.
type squashfsFile struct {
	*squashfs.Reader
	file *os.File
}

func (s squashfsFile) Close() error { return s.file.Close() }

// OpenFS opens the squashfs image of a store.
func OpenFS(e Extent) (FS, error) {
	s, err := openSquashfs(e)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openSquashfs(e Extent) (squashfsFile, error) {
	f, err := os.Open(e.Path)
	if err != nil {
		return squashfsFile{}, err
	}
	r, err := squashfs.OpenImage(io.NewSectionReader(f, e.Offset, e.Size), e.Size)
	if err != nil {
		return squashfsFile{}, errors.Join(err, f.Close())
	}
	return squashfsFile{r, f}, nil
}

// isoMedium is a medium that is read without mounting it.
type isoMedium struct {
	*iso9660.Image
	file *os.File
}

func (m isoMedium) Close() error { return m.file.Close() }

func (m isoMedium) Extent(name string) (offset, size int64, err error) {
	f, err := m.Find(name)
	if err == nil && !f.Contiguous() {
		err = fmt.Errorf("%s: its extents do not follow each other", name)
	}
	if err != nil {
		return 0, 0, err
	}
	return f.Offset(), f.Size, nil
}

// OpenMedium opens an ISO 9660 image: the device of a medium, or a file.
func OpenMedium(name string) (Medium, error) {
	image, f, err := iso9660.OpenFile(name)
	if err != nil {
		return nil, err
	}
	return isoMedium{image, f}, nil
}
