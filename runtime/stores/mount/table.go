package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Table counts the mounts at each mount point.
type Table map[string]int

// ReadTable reads the mounts of this process: proc_pid_mountinfo(5).
func ReadTable() (Table, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseTable(string(table)), nil
}

// parseTable counts how many mounts lie on each other. In the mount namespace of a unit, a
// folder that is writable is a mount over itself, and hides other mounts at the same mount points.
func parseTable(table string) Table {
	type mount struct {
		where string
		depth int
	}
	mounted, mounts := Table{}, map[string]mount{} // by their IDs
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		m := mount{unescape(fields[4]), 1}
		if parent := mounts[fields[1]]; parent.where == m.where {
			m.depth += parent.depth
		}
		mounts[fields[0]] = m
		mounted[m.where] = max(mounted[m.where], m.depth)
	}
	return mounted
}

// ErrNone means that no squashfs is mounted at a mount point.
var ErrNone = errors.New("no squashfs is mounted")

// DeviceAt finds the device of the squashfs that is mounted at a mount point; the error is ErrNone if there is none.
func DeviceAt(where string) (Extent, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Extent{}, err
	}
	for line := range strings.Lines(string(table)) {
		before, after, _ := strings.Cut(line, " - ")
		at, of := strings.Fields(before), strings.Fields(after)
		if len(at) > 4 && unescape(at[4]) == where && len(of) > 1 && of[0] == "squashfs" {
			device, err := os.Open(unescape(of[1]))
			if err != nil {
				return Extent{}, err
			}
			defer device.Close()
			size, err := device.Seek(0, io.SeekEnd)
			return Extent{Path: device.Name(), Size: size}, err
		}
	}
	return Extent{}, fmt.Errorf("%w at %s", ErrNone, where)
}

// deviceNumber returns the number of the block device that is mounted at a mount point, such as 7:0; ""
// if nothing is.
func deviceNumber(where string) (string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	number := ""
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && unescape(fields[4]) == where {
			number = fields[2] // the last one is on top
		}
	}
	return number, nil
}

// unescape decodes the octal escapes of a path in mountinfo.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// UnmountAll unmounts everything at a mount point.
func UnmountAll(ctx context.Context, by Mounter, where string) error {
	for tries := 1; ; tries++ {
		mounted, err := ReadTable()
		if err != nil || mounted[where] == 0 {
			return err
		}
		switch {
		case tries > maxTries:
			err = unmount(where)
		case mounted[where] > 1: // a service manager knows only one of several mounts
			err = UnmountTop(ctx, by, where)
		default:
			err = by.Unmount(ctx, where)
			if err != nil && ctx.Err() == nil { // the mount is not of a unit, and is in use
				if direct := unmount(where); !errors.Is(direct, unix.EPERM) {
					err = direct
				}
			}
		}
		if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: another process has unmounted it
			return err
		}
	}
}

// UnmountTop unmounts what lies on top at a mount point. A process that may not, as in a unit of
// pinbox, has the service manager unmount everything there.
func UnmountTop(ctx context.Context, by Mounter, where string) error {
	err := unmount(where)
	if errors.Is(err, unix.EPERM) {
		err = by.Unmount(ctx, where)
	}
	return err
}

// maxTries is how often the Mounter is tried before this process unmounts itself.
const maxTries = 3
