package systemd

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/coreos/go-systemd/v22/dbus"
)

// Running says whether systemd is the service manager: sd_booted(3).
func Running() bool {
	fi, err := os.Lstat("/run/systemd/system")
	return err == nil && fi.IsDir()
}

// Reload has a unit reload, and waits until its reload command has ended.
func Reload(ctx context.Context, unit string) error {
	conn, err := dbus.NewWithContext(ctx) // systemd itself, if there is no bus
	if err != nil {
		return fmt.Errorf("D-Bus: %w", err)
	}
	defer conn.Close()
	return wait(ctx, unit, conn.ReloadUnitContext)
}

// HasProcess says whether a service has a process, from its start on. If systemd does not
// answer, it has.
func HasProcess(ctx context.Context, unit string) bool {
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return true
	}
	defer conn.Close()
	pid, err := conn.GetServicePropertyContext(ctx, unit, "MainPID")
	return err != nil || pid.Value.Value() != uint32(0)
}

// Service is what sd_notify(3) is told. Without systemd nothing is.
type Service struct{}

// Ready says that the service is up.
func (Service) Ready() { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) }

// Watchdog says that the service works.
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
