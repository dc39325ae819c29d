package mount

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Extent is where a store is: a run of bytes in a file or device.
type Extent struct {
	Path string
	// Offset and Size are in bytes.
	Offset, Size int64
}

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

// Direct mounts with mount(8), without a service manager.
type Direct struct{}

// Mount runs mount(8).
func (Direct) Mount(ctx context.Context, m Mount) error {
	return run(ctx, "mount", "-t", "squashfs", "-o", strings.Join(m.Options, ","), m.What, m.Where)
}

// Unmount detaches the mount at once (MNT_DETACH). Running containers that use the store keep
// access to it.
func (Direct) Unmount(_ context.Context, where string) error {
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
