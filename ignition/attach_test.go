package ignition_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// attachCommand returns the command that udev runs for a medium in a drive.
func attachCommand(t *testing.T, drive string) string {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join(fixtures.Root(t), "fixtures/golden/70-pinbox.rules"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`RUN\+="(.*)"`).FindStringSubmatch(string(rules))
	if found == nil {
		t.Fatalf("got no command in the rules, want one:\n%s", rules)
	}
	return strings.ReplaceAll(found[1], "%k", drive)
}

// A second medium in the same drive is attached too, while pinbox-node still waits until the images of the
// first are pinned.
func TestNextMediumInTheSameDrive(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pinbox-node")
	if err := os.WriteFile(program, []byte(`#!/bin/sh
echo "$*" >>/run/pinbox/log
[ -e /quick ] || sleep 1000
`), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := fixtures.Script(t, `set -ex
log=/run/pinbox/log # where the unit may write
logged() { sh /await sh -c "[ \"\$(cat $log)\" = '$1' ]" || { cat $log; exit 1; }; }
`+attachCommand(t, "sr0")+`
logged "attach --auto /dev/sr0"
touch /quick
`+attachCommand(t, "sr0")+`
logged "attach --auto /dev/sr0
attach --auto /dev/sr0"
`, fixtures.Units(t, "installed", "pinbox-attach@.service"), map[string]string{"/usr/local/bin/pinbox-node": program})
	if code != 0 {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}
