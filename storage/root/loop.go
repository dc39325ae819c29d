package root

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mount mounts the store read-only with a loop device, which Linux frees with the mount. It does
// not use mount(8), which refuses a part of a file if another part, or all of the file, is mounted.
func (s StoreFile) mount(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	device, err := s.attach()
	if err != nil {
		return fmt.Errorf("loop device for %s: %w", s.File, err)
	}
	defer device.Close()
	if err := unix.Mount(device.Name(), dir, "squashfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount %s: %w", s.File, err)
	}
	return nil
}

// attach returns a loop device of the store. Linux frees it after its last use.
func (s StoreFile) attach() (*os.File, error) {
	file, err := os.Open(s.File)
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
		Offset: uint64(s.Offset), Sizelimit: uint64(s.Size), Flags: unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR,
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
