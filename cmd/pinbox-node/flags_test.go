package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/fault"
)

// service matches the command of a unit.
var service = regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/pinbox-node (.*)$`)

// The command of each unit is one that the program takes, and has no flags from elsewhere.
func TestCommandsOfUnits(t *testing.T) {
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
		args := append(strings.Fields(found[1]), "--help")
		commands = append(commands, args[0])
		var out, errOut bytes.Buffer
		if code := run(t.Context(), args, &out, &errOut); code != 0 || strings.Contains(found[1], "$") {
			t.Errorf("%s: got %s, exit code %d and %s, want 0 and no variable", filepath.Base(unit), found[1], code, errOut.String())
		}
	}
	if got := strings.Join(commands, " "); got != "attach firstboot mount run copy-volumes" {
		t.Errorf("got units with the commands %s, want attach, firstboot, mount, run and copy-volumes", got)
	}
}

// What a node is stands in its file: a command has the flags of its call.
func TestCommandsHaveTheFlagsOfTheirCall(t *testing.T) {
	for name, most := range map[string]int{"rollback": 6, "run": 3, "firstboot": 4, "mount": 4, "status": 4, "plan": 4} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), []string{name, "--help"}, &out, &errOut); code != 0 {
			t.Fatalf("%s: got exit code %d and %s, want 0", name, code, errOut.String())
		}
		if got := strings.Count(out.String(), "\n      --"); got == 0 || got > most {
			t.Errorf("%s: got %d flags, want at most %d\n%s", name, got, most, &out)
		}
	}
}

// A misspelt flag or setting fails, also before CRI-O starts.
func TestMisspeltFlags(t *testing.T) {
	for line, want := range map[string]string{
		"mount --wiat 5s":                                       "unknown flag: --wiat",
		"mount --pool worker":                                   "unknown flag: --pool",
		"mount --set resreve=8Gi":                               `unknown field "resreve"`,
		"firstboot --set reserve":                               "NAME=VALUE",
		"firstboot --set gcThreshold=101":                       "it must be 0 to 100",
		"firstboot --set stall=-1s":                             "cannot be negative",
		"firstboot --set metrics=127.0.0.1:9 --set kubeconfg=x": `unknown field "kubeconfg"`,
	} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), strings.Fields(line), &out, &errOut); code != fault.Usage ||
			!strings.Contains(errOut.String(), want) {
			t.Errorf("%s: got exit code %d and %s, want %d and %q", line, code, errOut.String(), fault.Usage, want)
		}
	}
}

// mount takes the settings of a node: here its folder of the state, of the file and of the flag.
func TestMountTakesSettings(t *testing.T) {
	dir := t.TempDir()
	state, config := filepath.Join(dir, "stores.d/state.json"), filepath.Join(dir, "node.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(state), 0o755), os.WriteFile(state, []byte("not JSON"), 0o644),
		os.WriteFile(config, []byte(`{"version": 1, "pools": ["worker"], "stateDir": "`+dir+`"}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--set", "stateDir=" + dir}, {"--config", config}} {
		args = append([]string{"mount", "--set", "setsDir=" + dir}, args...)
		var out, errOut bytes.Buffer
		if code := run(t.Context(), args, &out, &errOut); code == 0 || !strings.Contains(errOut.String(), state) {
			t.Errorf("%s: got exit code %d and %s, want an error of %s", args, code, errOut.String(), state)
		}
	}
}

// A node that a newer pinbox-node has changed: the error has its cure.
func TestStateOfANewerProgram(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "stores.d/state.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(state), 0o755), os.WriteFile(state, []byte(`{"version": 2}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"mount", "rollback"} {
		var out, errOut bytes.Buffer
		args := append(strings.Fields(command), "--set=stateDir="+dir, "--set=setsDir="+dir)
		if code := run(t.Context(), args, &out, &errOut); code != fault.Input ||
			!strings.Contains(errOut.String(), "version 2; this pinbox reads version 1") ||
			!strings.Contains(errOut.String(), "hint: use the pinbox-node that comes with the newest store") {
			t.Errorf("%s: got exit code %d and %s, want %d and the cure", command, code, errOut.String(), fault.Input)
		}
	}
}

// If CRI-O restarts while a store is copied or compacted, it waits for mount, but less than the unit's
// timeout.
func TestMountDoesNotWaitForACopy(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join(fixtures.Root(t), "runtime/provision/templates/mount.service"))
	if err != nil || !strings.Contains(string(unit), "TimeoutStartSec=3min\n") ||
		!strings.Contains(string(unit), "}} mount --wait 5s\n") {
		t.Fatalf("got %v and\n%s\nwant a timeout of 3 min, and --wait 5s", err, unit)
	}
	wait, err := time.ParseDuration(mountCommand().Flags().Lookup("wait").DefValue)
	if err != nil || wait > 10*time.Second {
		t.Errorf("got --wait %v and %v, want at most 10 s", wait, err)
	}
}
