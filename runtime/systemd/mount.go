package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

// unitDir holds units until the next boot, when they are written again: systemd.unit(5).
const unitDir = "/run/systemd/system"

// Mounter mounts stores by units, so that the order of shutdown and the ties between
// stores are systemd's to keep.
type Mounter struct{}

// Mount writes the unit and starts it.
func (Mounter) Mount(ctx context.Context, m stores.Mount) error {
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
		return err
	}
	if err := conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("reload units: %w", err)
	}
	// One that has failed too often would not start.
	_ = conn.ResetFailedUnitContext(ctx, name)
	return wait(ctx, name, conn.StartUnitContext)
}

// Unmount stops the unit, and what is bound to it, and removes it.
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

// wait has systemd do a job, and waits until that has ended.
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
			return fmt.Errorf("%s: the job ended as %q; `journalctl -u %s` may say why", name, result, name)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
