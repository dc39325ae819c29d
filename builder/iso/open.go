package iso

import (
	"io"
	"os"

	"github.com/pinbox/pinbox/storage/iso9660"
)

// Image is an ISO 9660 image, which may be a CoreOS live ISO.
type Image struct{ *iso9660.Image }

// Open reads the volume descriptors of an image of size bytes.
func Open(r io.ReaderAt, size int64) (*Image, error) {
	i, err := iso9660.Open(r, size)
	return &Image{i}, err
}

// Of returns an image that is open already.
func Of(image *iso9660.Image) *Image { return &Image{image} }

// OpenFile opens the image in a file or on a device. The caller closes the file.
func OpenFile(name string) (*Image, *os.File, error) {
	i, f, err := iso9660.OpenFile(name)
	return &Image{i}, f, err
}
