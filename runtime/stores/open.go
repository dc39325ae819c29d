package stores

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// open and stat are for files of a medium, which may be on a device that does not answer.
func open(name string, flags int) (*os.File, error) {
	return transfer.Open(name, flags, transfer.ReadDeadline)
}

func stat(name string) (fs.FileInfo, error) { return transfer.Stat(name, transfer.ReadDeadline) }

// squashfsFile is a store in a squashfs image, read without mounting it.
type squashfsFile struct {
	*squashfs.Reader
	file *os.File
}

func (s squashfsFile) Close() error { return s.file.Close() }

// OpenFS opens the squashfs image of a store.
func OpenFS(e mount.Extent) (FS, error) {
	s, err := openSquashfs(e)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openSquashfs(e mount.Extent) (squashfsFile, error) {
	f, err := open(e.Path, os.O_RDONLY)
	if err != nil {
		return squashfsFile{}, err
	}
	image := io.NewSectionReader(transfer.WithDeadline(f, transfer.ReadDeadline), e.Offset, e.Size)
	r, err := squashfs.OpenImage(image, e.Size)
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
	f, err := open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd) // Stat gives no size of a device
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	image, err := iso9660.Open(transfer.WithDeadline(f, transfer.ReadDeadline), size)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return isoMedium{image, f}, nil
}

// OpenRoot opens the read-only store at a graph root: that of the device that is mounted there, else the folder.
func OpenRoot(dir string) (FS, error) {
	device, err := mount.DeviceAt(dir)
	if err == nil {
		return OpenFS(device)
	}
	if !errors.Is(err, mount.ErrNone) {
		return nil, err
	}
	return folderFS{os.DirFS(dir)}, nil
}

// folderFS is a store in a folder.
type folderFS struct{ fs.FS }

func (folderFS) Close() error { return nil }
