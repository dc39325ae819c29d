package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is a mount of a store, in the terms of systemd.mount(5).
type Mount struct {
	// What is the path of a file or device, Where the mount point.
	What, Where string
	// Options of mount(8).
	Options []string
	// Bases are the mount points of the stores whose layers it needs.
	Bases []string
	// Description is for users.
	Description string
}

// Mounter mounts stores at slots.
type Mounter interface {
	Mount(context.Context, Mount) error
	// Unmount unmounts a store, even if it is in use.
	Unmount(ctx context.Context, where string) error
}

// DirectMounter mounts with mount(8), without a service manager.
type DirectMounter struct{}

// Mount runs mount(8).
func (DirectMounter) Mount(ctx context.Context, m Mount) error {
	return run(ctx, "mount", "-t", "squashfs", "-o", strings.Join(m.Options, ","), m.What, m.Where)
}

// Unmount detaches the mount at once (MNT_DETACH). Running containers that use the store keep
// access to it.
func (DirectMounter) Unmount(_ context.Context, where string) error {
	return unmount(where)
}

func unmount(where string) error {
	if err := unix.Unmount(where, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", where, err)
	}
	return nil
}

// run runs a program to its end. The program is not killed with this process and inherits the
// lock of the stores: the next pinbox-node waits for it.
func run(ctx context.Context, name string, args ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

// mountTable counts the mounts at each mount point.
type mountTable map[string]int

// readMountTable reads the mounts of this process: proc_pid_mountinfo(5).
func readMountTable() (mountTable, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMountTable(string(table)), nil
}

// parseMountTable counts how many mounts lie on each other. In the mount namespace of a unit, a
// folder that is writable is a mount over itself, and hides other mounts at the same mount points.
func parseMountTable(table string) mountTable {
	type mount struct {
		where string
		depth int
	}
	mounted, mounts := mountTable{}, map[string]mount{} // by their IDs
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

// deviceAt finds the device of the squashfs that is mounted at a mount point.
func deviceAt(where string) (Extent, error) {
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
	return Extent{}, fmt.Errorf("%w: no squashfs is mounted at %s", ErrMissing, where)
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

// unmountAll unmounts everything at a mount point.
func unmountAll(ctx context.Context, by Mounter, where string) error {
	for tries := 1; ; tries++ {
		mounted, err := readMountTable()
		if err != nil || mounted[where] == 0 {
			return err
		}
		switch {
		case tries > maxTries:
			err = unmount(where)
		case mounted[where] > 1: // a service manager knows only one of several mounts
			err = unmountTop(ctx, by, where)
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

// unmountTop unmounts what lies on top at a mount point. A process that may not, as in a unit of
// pinbox, has the service manager unmount everything there.
func unmountTop(ctx context.Context, by Mounter, where string) error {
	err := unmount(where)
	if errors.Is(err, unix.EPERM) {
		err = by.Unmount(ctx, where)
	}
	return err
}

// maxTries is how often the Mounter is tried before this process unmounts itself.
const maxTries = 3
