package loop

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open returns a read-only loop device of the size bytes from offset in a file or a block device. Both are
// multiples of 512; a size of 0 means all of the rest. The kernel removes the device after its last use: as
// a block device of a mount or of device mapper, or as the open file that Open returns.
func Open(name string, offset, size int64) (*os.File, error) {
	device, err := open(name, offset, size)
	if err != nil {
		return nil, fmt.Errorf("loop device of %s: %w", name, err)
	}
	return device, nil
}

func open(name string, offset, size int64) (*os.File, error) {
	file, err := os.Open(name) // to read only, and so the device is
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{
		Offset: uint64(offset), Sizelimit: uint64(size), Flags: unix.LO_FLAGS_AUTOCLEAR,
	}}
	for {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		device, err := os.Open(fmt.Sprintf("/dev/loop%d", number))
		if err != nil {
			return nil, err
		}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &config); err == nil {
			return device, nil
		}
		_ = device.Close()
		if !errors.Is(err, unix.EBUSY) { // another process has taken the device
			return nil, err
		}
	}
}
