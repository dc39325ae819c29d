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

// TestMain is the program that runs within the machine, too.
func TestMain(m *testing.M) {
	if os.Getenv("PINBOX_TEST_INSIDE") == "" {
		os.Exit(m.Run())
	}
	if err := inside(); err != nil {
		fmt.Println("inside:", err)
		os.Exit(1)
	}
	fmt.Println("inside: all is well")
}

func inside() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if !systemd.Running() {
		return fmt.Errorf("systemd is not seen")
	}
	if err := systemd.Reload(ctx, "no-such.service"); err == nil || !strings.Contains(err.Error(), "no-such.service") {
		return fmt.Errorf("a unit that is not there: got %w", err)
	}
	if err := systemd.Reload(ctx, "refuses.service"); err == nil || !strings.Contains(err.Error(), "failed") {
		return fmt.Errorf("a unit that refuses: got %w", err)
	}
	if err := systemd.Reload(ctx, "crio.service"); err != nil {
		return err
	}
	if _, err := os.Stat("/run/reloaded"); err != nil {
		return fmt.Errorf("nobody was told to reload: %w", err)
	}
	return nil
}

// A real systemd reloads the unit, and says when one cannot be.
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
		t.Errorf("exit code %d\n%s", code, out)
	}
}
