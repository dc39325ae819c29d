package stores

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"
)

// Disc is a medium, or a file with what one holds. It is read without the kernel's
// help: nothing is mounted that could be left over, and no medium is parsed in the
// kernel that somebody has plugged in.
type Disc interface {
	io.Closer
	// Text reads a small file.
	Text(name string) ([]byte, error)
	// Extent is where a file is, in bytes.
	Extent(name string) (offset, size int64, err error)
}

// Where a medium has a store, its sum, and its signature, if it has one: builder/medium.go.
const (
	discStore = "pinbox/store.squashfs"
	discSums  = "pinbox/sums.txt"
	discSig   = "pinbox/store.sig"
)

// disc finds the store of a medium.
func (k Manager) disc(name string, want digest.Digest) (s source, err error) {
	d, err := k.Disc(name)
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer d.Close()
	s.Path, s.id = name, want
	if s.Offset, s.Size, err = d.Extent(discStore); err != nil {
		return s, fmt.Errorf("%s: %w: %w", name, ErrNoSource, err)
	}
	s.signature, _ = d.Text(discSig) // which need not be there
	if s.id != "" {
		return s, nil
	}
	text, err := d.Text(discSums)
	if err != nil {
		return s, fmt.Errorf("%s: %w: %w", name, ErrNoSum, err)
	}
	if s.id = SumOf(text, path.Base(discStore)); s.id == "" {
		return s, fmt.Errorf("%s: %w", name, ErrNoSum)
	}
	return s, nil
}

// medium finds the medium that has a store, whatever device it is now.
func (k Manager) medium(o Store) (Extent, error) {
	devices, err := discs()
	if err != nil {
		return Extent{}, err
	}
	for _, device := range devices {
		if s, err := k.disc(device, ""); err == nil && s.id == o.ID {
			return s.Extent, nil
		}
	}
	return Extent{}, fmt.Errorf("%w: no medium that has it is plugged in", ErrLost)
}

// discs are the block devices with the file system of a CD.
func discs() (found []string, err error) {
	devices, err := os.ReadDir("/sys/class/block")
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		device := filepath.Join("/dev", strings.ReplaceAll(d.Name(), "!", "/"))
		if isDisc(device) {
			found = append(found, device)
		}
	}
	return found, nil
}

// isDisc looks for the first volume descriptor: ECMA-119, 8.
func isDisc(name string) bool {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if isEmpty(f) {
		return false
	}
	magic := make([]byte, 5)
	_, err = f.ReadAt(magic, 16*2048+1)
	return err == nil && string(magic) == "CD001"
}

// isEmpty says that a drive has no disc. To read all the same would fill the kernel's log
// with errors, at every look at the stores. One that is not ready yet is worth the wait,
// and what is no drive does not know the question.
func isEmpty(drive *os.File) bool {
	const driveStatus, currentSlot, noDisc, trayOpen = 0x5326, math.MaxInt32, 1, 2 // linux/cdrom.h
	status, _, failed := unix.Syscall(unix.SYS_IOCTL, drive.Fd(), driveStatus, currentSlot)
	return failed == 0 && (status == noDisc || status == trayOpen)
}

// extent is where the bytes of an attached store are.
func (k Manager) extent(o Store) (Extent, error) {
	if o.Medium {
		return k.medium(o)
	}
	e := Extent{Path: k.file(o), Offset: o.Offset, Size: o.Size}
	if o.Place != "" {
		e.Path = o.Place
	}
	fi, err := os.Stat(e.Path)
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrLost, err)
	}
	if fi.Size() < o.Offset+o.Size || o.Offset == 0 && fi.Size() != o.Size {
		return e, fmt.Errorf("%s: %w: it has %d bytes of %d", e.Path, ErrDamaged, fi.Size()-o.Offset, o.Size)
	}
	return e, nil
}

// open reads an attached store that need not be mounted.
func (k Manager) open(o Store) (Image, Extent, error) {
	e, err := k.extent(o)
	if err != nil {
		return nil, e, err
	}
	image, err := k.Open(e)
	if err != nil {
		return nil, e, errors.Join(fmt.Errorf("%s: %w", e.Path, ErrDamaged), err)
	}
	return image, e, nil
}
