package systemd

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/coreos/go-systemd/v22/dbus"
)

// Running reports whether systemd is the service manager: sd_booted(3).
func Running() bool {
	fi, err := os.Lstat("/run/systemd/system")
	return err == nil && fi.IsDir()
}

// Reload reloads a unit, and waits until its reload command has ended.
func Reload(ctx context.Context, unit string) error {
	conn, err := dbus.NewWithContext(ctx) // connects to systemd itself if there is no bus
	if err != nil {
		return fmt.Errorf("D-Bus: %w", err)
	}
	defer conn.Close()
	return wait(ctx, unit, conn.ReloadUnitContext)
}

// ReloadUnits makes systemd read all units again.
func ReloadUnits(ctx context.Context) error {
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("D-Bus: %w", err)
	}
	defer conn.Close()
	return conn.ReloadContext(ctx)
}

// HasProcess reports whether a service has a main process: whether it runs or starts. If systemd
// does not answer, it reports true.
func HasProcess(ctx context.Context, unit string) bool {
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return true
	}
	defer conn.Close()
	pid, err := conn.GetServicePropertyContext(ctx, unit, "MainPID")
	return err != nil || pid.Value.Value() != uint32(0)
}

// Service notifies systemd of the state of this service: sd_notify(3). Without systemd it does
// nothing.
type Service struct{}

// Ready reports that the service has started.
func (Service) Ready() { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) }

// Watchdog reports that the service works.
func (Service) Watchdog() { _, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) }

// SetStatus sets the line that `systemctl status` shows.
func (Service) SetStatus(line string) { _, _ = daemon.SdNotify(false, "STATUS="+line) }

// WatchdogInterval is how often Watchdog is due, 0 for never: half of the unit's WatchdogSec.
func (Service) WatchdogInterval() time.Duration {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0
	}
	return every / 2
}
