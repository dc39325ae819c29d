package ignition_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// starts starts CRI-O in every way.
const starts = `set -ex
said() {
	for n in 1 2 3 4 5 6 7 8 9; do grep -q crio /log || sleep 1; done # started is not yet at work
	test "$(tr '\n' ' ' </log)" = "$1 "
	rm /log
}
systemctl start crio
said "mount crio"
systemctl restart crio
said "mount crio"
systemctl kill --signal=KILL crio
said "mount crio"
touch /fail
systemctl restart crio
said "mount crio"
systemctl is-failed pinbox-mount
touch /hang
systemctl restart crio
said "mount crio"
systemctl is-active crio
`

// Under a real systemd: every start of CRI-O has stores mounted first, by whatever it
// was started, and neither a failure nor a program that hangs and does not let itself
// be asked to end keeps it from starting.
func TestMountBeforeEveryStartOfCRIO(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pinbox-node")
	if err := os.WriteFile(program, []byte(`#!/bin/sh
echo "$1" >>/log
[ ! -e /hang ] || { trap '' TERM; sleep 1000; }
[ ! -e /fail ]
`), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := fixtures.Script(t, starts, map[string]string{
		"etc/systemd/system/pinbox-mount.service":                 impatient(t, "folder-pinbox-mount.service"),
		"etc/systemd/system/crio.service.d/10-pinbox-stores.conf": impatient(t, "folder-10-pinbox-stores.conf"),
		"etc/systemd/system/crio.service": "[Service]\nExecStart=/bin/sh -c 'echo crio >>/log; " +
			"exec sleep 1000'\nRestart=on-failure\nRestartSec=100ms\n",
	}, map[string]string{"/usr/local/bin/pinbox-node": program})
	if code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// impatient is a golden unit that waits for seconds only, and for no target.
func impatient(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(fixtures.Root(t), "fixtures/golden", name))
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("[Unit]\n", "[Unit]\nDefaultDependencies=no\n", "StartSec=60", "StartSec=1", "StopSec=5",
		"StopSec=1")
	return here.Replace(string(content))
}
