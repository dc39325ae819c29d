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

// Mount is what it takes to mount a store.
type Mount struct {
	// What is a file, Where a folder.
	What, Where string
	// Options of mount(8).
	Options []string
	// Bases are the mount points of the stores whose layers it needs.
	Bases []string
	// Description tells people what it is.
	Description string
}

// Mounter mounts stores at slots.
type Mounter interface {
	Mount(context.Context, Mount) error
	// Unmount unmounts a store, in use or not.
	Unmount(ctx context.Context, where string) error
}

// DirectMounter mounts without a service manager.
type DirectMounter struct{}

// Mount runs mount(8).
func (DirectMounter) Mount(ctx context.Context, m Mount) error {
	return run(ctx, "mount", "-t", "squashfs", "-o", strings.Join(m.Options, ","), m.What, m.Where)
}

// Unmount detaches at once. Containers over the store keep it until they end.
func (DirectMounter) Unmount(_ context.Context, where string) error {
	return unmount(where)
}

func unmount(where string) error {
	if err := unix.Unmount(where, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", where, err)
	}
	return nil
}

// run runs a program of the system. It is not killed with this process, and inherits the
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
	mounted := mountTable{}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			mounted[unescape(fields[4])]++
		}
	}
	return mounted, nil
}

// deviceAt is the device that is mounted at a mount point.
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

// unescape gives back blanks and the like, which the kernel writes in octal.
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

// unmountAll unmounts all that is mounted at a mount point.
func unmountAll(ctx context.Context, by Mounter, where string) error {
	for tries := 1; ; tries++ {
		mounted, err := readMountTable()
		if err != nil || mounted[where] == 0 {
			return err
		}
		if mounted[where] > 1 || tries > maxTries { // a service manager does not know of one over another
			err = unmount(where)
		} else {
			err = by.Unmount(ctx, where)
			if err != nil && ctx.Err() == nil { // a file is open in what no unit has mounted
				err = unmount(where)
			}
		}
		if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: somebody else has unmounted it
			return err
		}
	}
}

// maxTries is how often a service manager is asked for the same.
const maxTries = 3
