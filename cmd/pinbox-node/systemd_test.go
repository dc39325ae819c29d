package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// The unit that Ignition writes, under a real systemd: it becomes ready while
// CRI-O is still away, says so, and outlives its watchdog.
func TestServiceUnderTheRealSystemd(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join(fixtures.Root(t), "fixtures/golden/live-pinbox-node.service"))
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("/usr/local/bin/pinbox-node run", "/pinbox-node run --wait 1s", "WatchdogSec=60", "WatchdogSec=1").Replace(string(unit))
	if !strings.Contains(here, "--wait 1s") || !strings.Contains(here, "WatchdogSec=1\n") {
		t.Fatalf("the unit has changed:\n%s", unit)
	}
	out, code := fixtures.Machine(t, "test.service", map[string]string{
		"etc/systemd/system/pinbox-node.service": strings.Replace(here, "[Unit]\n", "[Unit]\nDefaultDependencies=no\n", 1),
		"etc/pinbox/sets.d/.keep":                "",
		"check": `set -ex
sleep 3
systemctl is-active pinbox-node.service
systemctl show -p NRestarts pinbox-node.service | grep NRestarts=0
systemctl show -p StatusText pinbox-node.service | grep "CRI-O does not answer on /var/run/crio/crio.sock"
systemctl stop pinbox-node.service
systemctl show -p Result pinbox-node.service | grep Result=success
`,
		"etc/systemd/system/test.service": `[Unit]
DefaultDependencies=no
Wants=pinbox-node.service
After=pinbox-node.service
SuccessAction=exit
FailureAction=exit
FailureActionExitStatus=7
[Service]
Type=oneshot
ExecStart=/bin/sh /check
StandardOutput=tty
StandardError=tty
`,
	}, map[string]string{"/pinbox-node": fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node")})
	if code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
