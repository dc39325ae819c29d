package stores

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/layout"
)

// Medium is a medium, or an image file of one. It is read without a mount: no mount can be left
// over, and the kernel does not parse a file system that somebody has plugged in.
type Medium interface {
	io.Closer
	// ReadText reads a small file.
	ReadText(name string) ([]byte, error)
	// Extent is where a file is, in bytes.
	Extent(name string) (offset, size int64, err error)
}

// Where a medium has a store, its sum, and its signature, if it has one.
const (
	discStore = layout.MediumDir + "/" + layout.MediumStore
	discSums  = layout.MediumDir + "/" + layout.MediumSums
	discSig   = layout.MediumDir + "/" + layout.MediumSignature
)

// onDisc finds the store of a medium.
func (s sources) onDisc(name string, want digest.Digest) (src source, err error) {
	d, err := s.openDisc(name)
	if err != nil {
		return src, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer d.Close()
	src.Path, src.id = name, want
	if src.Offset, src.Size, err = d.Extent(discStore); err != nil {
		return src, fmt.Errorf("%s: %w: %w", name, ErrNoStore, err)
	}
	src.signature, _ = d.ReadText(discSig) // which need not be there
	if src.id != "" {
		return src, nil
	}
	text, err := d.ReadText(discSums)
	if err != nil {
		return src, fmt.Errorf("%s: %w: %w", name, ErrNoDigest, err)
	}
	if src.id, err = layout.SumOf(text, layout.MediumStore); err != nil {
		return src, fmt.Errorf("%s: %w: %w", name, ErrNoDigest, err)
	}
	if src.id == "" {
		return src, fmt.Errorf("%s: %w", name, ErrNoDigest)
	}
	return src, nil
}

// findMedium finds the medium that has an attached store, whatever device it is now.
func (s sources) findMedium(o Store) (Extent, error) {
	devices, err := discs()
	if err != nil {
		return Extent{}, err
	}
	for _, device := range devices {
		if src, err := s.onDisc(device, ""); err == nil && src.id == o.ID {
			return src.Extent, nil
		}
	}
	return Extent{}, fmt.Errorf("%w: no medium that has it is plugged in", ErrMissing)
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

// isEmpty says that a drive has no disc. Each read of an empty drive adds errors to the kernel's
// log. A drive that is not ready yet is not empty, and other devices do not know the ioctl.
func isEmpty(drive *os.File) bool {
	const driveStatus, currentSlot, noDisc, trayOpen = 0x5326, math.MaxInt32, 1, 2 // linux/cdrom.h
	status, _, failed := unix.Syscall(unix.SYS_IOCTL, drive.Fd(), driveStatus, currentSlot)
	return failed == 0 && (status == noDisc || status == trayOpen)
}
