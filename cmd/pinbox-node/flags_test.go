package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/fixtures"
)

// service finds what a unit calls with the flags of node.env.
var service = regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/pinbox-node (.*\$PINBOX_NODE_FLAGS.*)$`)

// All units read one file. With --interval in it only the service once started: there
// was no first boot, and no medium was attached.
func TestEveryUnitTakesTheFlagsOfTheService(t *testing.T) {
	var flags []string
	runCommand().Flags().VisitAll(func(f *pflag.Flag) {
		value := strings.Trim(f.DefValue, "[]") // of an empty list
		flags = append(flags, "--"+f.Name+"="+value)
	})
	units, err := filepath.Glob(filepath.Join(fixtures.Root(t), "fixtures/golden/installed-pinbox-*.service"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, unit := range units {
		content, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		found := service.FindStringSubmatch(string(content))
		if found == nil {
			continue
		}
		args := strings.Fields(strings.Replace(found[1], "$PINBOX_NODE_FLAGS", strings.Join(flags, " ")+" --help", 1))
		commands = append(commands, args[0])
		var out, errOut bytes.Buffer
		if code := run(t.Context(), args, &out, &errOut); code != 0 {
			t.Errorf("%s: exit code %d: %s", filepath.Base(unit), code, errOut.String())
		}
	}
	if got := strings.Join(commands, " "); got != "attach firstboot mount run" {
		t.Errorf("the units call %s", got)
	}
}

// Stores are mounted before CRI-O starts, whatever else node.env says: where they are
// counts, and a misspelt flag does not.
func TestMountFindsItsFlags(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "stores.d/state.json")
	if err := os.Mkdir(filepath.Dir(state), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state, []byte("not JSON"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"mount", "--pool", "worker", "--prnue", "--reserve", "8Gi", "--state", dir, "--sets", dir, "--interval=1m",
	}
	var out, errOut bytes.Buffer
	if code := run(t.Context(), args, &out, &errOut); code == 0 || !strings.Contains(errOut.String(), state) {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
}

// CRI-O is restarted while a store is copied or compacted: that keeps it waiting, but not
// as long as its unit lets it.
func TestMountDoesNotWaitForACopy(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join(fixtures.Root(t), "ignition/templates/mount.service"))
	if err != nil || !strings.Contains(string(unit), "TimeoutStartSec=60\n") ||
		!strings.Contains(string(unit), "$PINBOX_NODE_FLAGS --wait 5s\n") {
		t.Fatalf("%v\n%s", err, unit)
	}
	wait, err := time.ParseDuration(mountCommand().Flags().Lookup("wait").DefValue)
	if err != nil || wait > 10*time.Second {
		t.Errorf("%v, %v", wait, err)
	}
}
