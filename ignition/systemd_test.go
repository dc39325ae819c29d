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
	const unit = "pinbox-mount.service"
	files := fixtures.Units(t, "folder", unit, "crio.service.d/10-pinbox-stores.conf")
	for long, short := range map[string]string{"TimeoutStartSec=3min": "TimeoutStartSec=1", "StopSec=5": "StopSec=1"} {
		text := files["etc/systemd/system/"+unit]
		if !strings.Contains(text, long) {
			t.Fatalf("got no %s in the unit, which the test makes shorter\n%s", long, text)
		}
		files["etc/systemd/system/"+unit] = strings.Replace(text, long, short, 1)
	}
	files["etc/systemd/system/crio.service"] = "[Service]\nExecStart=/bin/sh -c 'echo crio >>/run/pinbox/log; " +
		"exec sleep 1000'\nRestart=on-failure\nRestartSec=100ms\n"
	out, code := fixtures.Script(t, starts, files, map[string]string{"/usr/local/bin/pinbox-node": program})
	if code != 0 {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}
