package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

// unitDir has units until the next boot: systemd.unit(5). They are written again then.
const unitDir = "/run/systemd/system"

// Mounter mounts stores by units, so that systemd unmounts them in order at shutdown, and unmounts
// a delta with its base.
type Mounter struct{}

// Mount writes the unit and starts it.
func (Mounter) Mount(ctx context.Context, m mount.Mount) error {
	name := unitName(m.Where)
	text, err := render(m)
	if err != nil {
		return err
	}
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("D-Bus: %w", err)
	}
	defer conn.Close()
	if _, err := atomicfile.Write(filepath.Join(unitDir, name), []byte(text), 0o644); err != nil {
		// /run is full or read-only. systemd sees the mount all the same, and unmounts it at shutdown. The
		// units of pinbox may not mount: then both errors count.
		if direct := (mount.Direct{}).Mount(ctx, m); direct != nil {
			return errors.Join(err, direct)
		}
		return nil
	}
	if err := conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("reload units: %w", err)
	}
	// systemd refuses to start a unit that has failed too often.
	_ = conn.ResetFailedUnitContext(ctx, name)
	return wait(ctx, name, conn.StartUnitContext)
}

// Unmount stops the unit and those that are bound to it, and removes it.
func (Mounter) Unmount(ctx context.Context, where string) error {
	name := unitName(where)
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("D-Bus: %w", err)
	}
	defer conn.Close()
	if err := wait(ctx, name, conn.StopUnitContext); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(unitDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return conn.ReloadContext(ctx)
}

// wait starts a job of systemd, and waits until it has ended.
func wait(
	ctx context.Context, name string, job func(context.Context, string, string, chan<- string) (int, error),
) error {
	done := make(chan string, 1)
	if _, err := job(ctx, name, "replace", done); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s: the job ended as %q; `journalctl -u %s` may have the reason", name, result, name)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
