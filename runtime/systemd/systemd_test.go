package systemd_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/systemd"
)

// TestMain also runs as a service in the machine of TestReloadByTheRealSystemd.
func TestMain(m *testing.M) {
	if os.Getenv("PINBOX_TEST_INSIDE") == "" {
		os.Exit(m.Run())
	}
	if err := inside(); err != nil {
		fmt.Println("inside:", err)
		os.Exit(1)
	}
	fmt.Println("inside: ok")
}

func inside() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if !systemd.Running() {
		return fmt.Errorf("got Running false, want true")
	}
	if err := systemd.Reload(ctx, "no-such.service"); err == nil || !strings.Contains(err.Error(), "no-such.service") {
		return fmt.Errorf("a missing unit: got %w", err)
	}
	if err := systemd.Reload(ctx, "refuses.service"); err == nil || !strings.Contains(err.Error(), "failed") {
		return fmt.Errorf("a unit whose reload fails: got %w", err)
	}
	if err := systemd.Reload(ctx, "crio.service"); err != nil {
		return err
	}
	if _, err := os.Stat("/run/reloaded"); err != nil {
		return fmt.Errorf("crio.service was not reloaded: %w", err)
	}
	return stopAndStart(ctx, "crio.service")
}

func stopAndStart(ctx context.Context, unit systemd.Unit) error {
	if !unit.Loaded(ctx) || systemd.Unit("no-such.service").Loaded(ctx) {
		return fmt.Errorf("got Loaded %v and %v of a missing one, want true and false", unit.Loaded(ctx),
			systemd.Unit("no-such.service").Loaded(ctx))
	}
	for _, step := range []struct {
		do   func(context.Context) error
		runs bool
	}{{unit.Stop, false}, {unit.Start, true}} {
		if err := step.do(ctx); err != nil {
			return err
		}
		if got := systemd.HasProcess(ctx, string(unit)); got != step.runs {
			return fmt.Errorf("got HasProcess %v, want %v", got, step.runs)
		}
	}
	return nil
}

// A real systemd reloads, stops and starts the unit, and returns an error for one that it cannot reload.
func TestReloadByTheRealSystemd(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const unit = "[Unit]\nDefaultDependencies=no\n"
	out, code := fixtures.Machine(t, "test.service", map[string]string{
		"etc/systemd/system/crio.service": unit + "[Service]\nExecStart=/bin/sleep infinity\n" +
			"ExecReload=/bin/touch /run/reloaded\n",
		"etc/systemd/system/refuses.service": unit + "[Service]\nExecStart=/bin/sleep infinity\nExecReload=/bin/false\n",
		"etc/systemd/system/test.service": unit + `Wants=crio.service refuses.service
After=crio.service refuses.service
SuccessAction=exit
FailureAction=exit
FailureActionExitStatus=7
[Service]
Type=oneshot
Environment=PINBOX_TEST_INSIDE=1
ExecStart=/inside
StandardOutput=tty
`,
	}, map[string]string{"/inside": program})
	if code != 0 {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}
