package stores

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// Medium is an open ISO 9660 image. It is read without mounting it: so no mount can be left over,
// and the kernel does not parse the file system of an untrusted device.
type Medium interface {
	io.Closer
	// ReadText reads a small file.
	ReadText(name string) ([]byte, error)
	// Extent returns where a file is in the image, in bytes.
	Extent(name string) (offset, size int64, err error)
}

// Paths of the store, its sum and its signature on a medium. The signature is optional.
const (
	mediumStore     = layout.MediumDir + "/" + layout.MediumStore
	mediumSums      = layout.MediumDir + "/" + layout.MediumSums
	mediumSignature = layout.MediumDir + "/" + layout.MediumSignature
)

// onMedium finds the store on a medium, its signature and its expected digest.
func (s sources) onMedium(name string, src *source) error {
	m, err := s.openMedium(name)
	if err != nil {
		return fault.Wrap(ErrDamaged, err)
	}
	defer m.Close()
	src.Path = name
	if src.Offset, src.Size, err = m.Extent(mediumStore); err != nil {
		return fmt.Errorf("%s: %w", name, fault.Wrap(ErrNoStore, err))
	}
	if src.signature, err = readText(m, mediumSignature); err == nil {
		err = signature.CheckSize(src.signature)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, fault.Wrap(ErrSignature, err))
	}
	if src.id != "" {
		return nil
	}
	text, err := readText(m, mediumSums)
	if err == nil {
		src.id, err = layout.FindSum(bytes.NewReader(text), layout.MediumStore)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, fault.Wrap(ErrNoDigest, err))
	}
	return nil
}

// readText reads a small file of a medium, which may be missing.
func readText(m Medium, name string) ([]byte, error) {
	text, err := m.ReadText(name)
	if errors.Is(err, iso9660.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// findMedium finds the medium with an attached store among all block devices, since its device
// may have another name than at the attach.
func (s sources) findMedium(o Store) (mount.Extent, error) {
	devices, err := mediumDevices()
	if err != nil {
		return mount.Extent{}, err
	}
	for _, device := range devices {
		var src source
		if err := s.onMedium(device, &src); err == nil && src.id == o.ID {
			return src.Extent, nil
		}
	}
	return mount.Extent{}, fmt.Errorf("%w: no plugged-in medium has it", ErrMissing)
}

// mediumDevices lists the block devices with an ISO 9660 file system.
func mediumDevices() (found []string, err error) {
	devices, err := os.ReadDir("/sys/class/block")
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		device := filepath.Join("/dev", strings.ReplaceAll(d.Name(), "!", "/"))
		if medium, err := isMedium(device); medium && err == nil {
			found = append(found, device)
		}
	}
	return found, nil
}

// isMedium reports whether a file or device begins with a volume descriptor: ECMA-119, 8.1. The error
// is for a device that does not answer; a file that cannot be read is no medium.
func isMedium(name string) (bool, error) {
	return transfer.Within(transfer.ReadDeadline, name, func() (bool, error) {
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return false, nil
		}
		defer f.Close()
		if isEmpty(f) {
			return false, nil
		}
		magic := make([]byte, 5)
		_, err = f.ReadAt(magic, iso9660.FirstDescriptor*iso9660.SectorSize+1)
		return err == nil && string(magic) == "CD001", nil
	}, nil)
}

// isEmpty reports whether a CD drive is empty: each read of an empty drive adds errors to the
// kernel's log. A drive that is not ready yet does not count as empty. Other devices do not have
// this ioctl.
func isEmpty(drive *os.File) bool {
	const driveStatus, currentSlot, noDisc, trayOpen = 0x5326, math.MaxInt32, 1, 2 // linux/cdrom.h
	status, _, failed := unix.Syscall(unix.SYS_IOCTL, drive.Fd(), driveStatus, currentSlot)
	return failed == 0 && (status == noDisc || status == trayOpen)
}
