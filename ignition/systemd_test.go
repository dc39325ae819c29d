package ignition_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// starts is a script that starts CRI-O in several ways.
const starts = `set -ex
log=/run/pinbox/log # where the unit may write
mkdir -p /run/pinbox
logged() {
	sh /await grep -q crio $log # systemctl may return before the program writes
	test "$(tr '\n' ' ' <$log)" = "$1 "
	rm $log
}
systemctl start crio
logged "mount crio"
systemctl restart crio
logged "mount crio"
systemctl kill --signal=KILL crio
logged "mount crio"
touch /fail
systemctl restart crio
logged "mount crio"
systemctl is-failed pinbox-mount
touch /hang
systemctl restart crio
logged "mount crio"
systemctl is-active crio
`

// A real systemd mounts the stores before each start of CRI-O, however it is started. CRI-O starts also if
// the program fails, or hangs and ignores SIGTERM.
func TestMountBeforeEveryStartOfCRIO(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pinbox-node")
	if err := os.WriteFile(program, []byte(`#!/bin/sh
echo "$1" >>/run/pinbox/log
[ ! -e /hang ] || { trap '' TERM; sleep 1000; }
[ ! -e /fail ]
`), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := fixtures.Script(t, starts, map[string]string{
		"etc/systemd/system/pinbox-mount.service":                 withShortTimeouts(t, "folder-pinbox-mount.service"),
		"etc/systemd/system/crio.service.d/10-pinbox-stores.conf": withShortTimeouts(t, "folder-10-pinbox-stores.conf"),
		"etc/systemd/system/crio.service": "[Service]\nExecStart=/bin/sh -c 'echo crio >>/run/pinbox/log; " +
			"exec sleep 1000'\nRestart=on-failure\nRestartSec=100ms\n",
	}, map[string]string{"/usr/local/bin/pinbox-node": program})
	if code != 0 {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}

// withShortTimeouts returns a golden unit with timeouts of a second, and without default dependencies.
func withShortTimeouts(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(fixtures.Root(t), "fixtures/golden", name))
	if err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer("[Unit]\n", "[Unit]\nDefaultDependencies=no\n", "StartSec=60", "StartSec=1",
		"StopSec=5", "StopSec=1")
	return replace.Replace(string(content))
}
