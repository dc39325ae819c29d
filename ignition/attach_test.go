package ignition_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// offer is what udev runs for a medium in a drive.
func offer(t *testing.T, drive string) string {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join(fixtures.Root(t), "fixtures/golden/70-pinbox.rules"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`RUN\+="(.*)"`).FindStringSubmatch(string(rules))
	if found == nil {
		t.Fatalf("nothing is run:\n%s", rules)
	}
	return strings.ReplaceAll(found[1], "%k", drive)
}

// A medium is taken out and the next put into the same drive while pinbox-node still
// waits for the images of the first to be pinned: it is attached too.
func TestNextMediumInTheSameDrive(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pinbox-node")
	if err := os.WriteFile(program, []byte(`#!/bin/sh
echo "$*" >>/log
[ -e /quick ] || sleep 1000
`), 0o755); err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile(filepath.Join(fixtures.Root(t), "fixtures/golden/installed-pinbox-attach@.service"))
	if err != nil {
		t.Fatal(err)
	}
	out, code := fixtures.Script(t, `set -ex
said() { for n in $(seq 300); do test "$(cat /log)" = "$1" && return; sleep 0.1; done; cat /log; exit 1; }
`+offer(t, "sr0")+`
said "attach --auto /dev/sr0"
touch /quick
`+offer(t, "sr0")+`
said "attach --auto /dev/sr0
attach --auto /dev/sr0"
`, map[string]string{
		"etc/systemd/system/pinbox-attach@.service": strings.Replace(string(unit), "[Unit]\n",
			"[Unit]\nDefaultDependencies=no\n", 1),
		"log": "",
	}, map[string]string{"/usr/local/bin/pinbox-node": program})
	if code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
