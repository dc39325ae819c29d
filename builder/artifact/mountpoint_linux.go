package artifact

import "golang.org/x/sys/unix"

// mountPoint reports whether something is mounted at a folder.
func mountPoint(dir string) (bool, error) {
	var attr unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, 0, 0, &attr)
	return attr.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, err
}
