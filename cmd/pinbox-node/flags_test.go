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

	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/fault"
)

// service matches the command of a unit with the flags of node.env.
var service = regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/pinbox-node (.*\$PINBOX_NODE_FLAGS.*)$`)

// All units read one file. With --interval in it, only the service started: the first boot and the
// attachment of media failed.
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
			t.Errorf("%s: got exit code %d and %s, want 0", filepath.Base(unit), code, errOut.String())
		}
	}
	if got := strings.Join(commands, " "); got != "attach firstboot mount run copy-volumes" {
		t.Errorf("got units with the commands %s, want attach, firstboot, mount, run and copy-volumes", got)
	}
}

// The help of attach listed flags that do nothing for it, among them those of the metrics and of the cluster.
func TestHelpListsTheFlagsOfTheService(t *testing.T) {
	for command, want := range map[string]bool{"run": true, "attach": false, "rollback": false, "firstboot": false} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), []string{command, "--help", "--all"}, &out, &errOut); code != 0 {
			t.Fatalf("%s: got exit code %d and %s, want 0", command, code, errOut.String())
		}
		for _, flag := range []string{"--interval", "--metrics ", "--kubeconfig", "--jitter", "--node-condition", "Cluster:"} {
			if got := strings.Contains(out.String(), flag); got != want {
				t.Errorf("%s --help: got %s in it %v, want %v", command, flag, got, want)
			}
		}
		if !strings.Contains(out.String(), "--metrics-file") { // each pass writes it
			t.Errorf("%s --help: got no --metrics-file, want it", command)
		}
	}
}

// mount uses the flags of node.env that it knows, such as --state, and ignores others, also misspelt
// ones.
func TestMountIgnoresUnknownFlags(t *testing.T) {
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
		t.Errorf("got exit code %d and %s, want an error of %s", code, errOut.String(), state)
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
		args := append(strings.Fields(command), "--state", dir, "--sets", dir)
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
		!strings.Contains(string(unit), "$PINBOX_NODE_FLAGS --wait 5s\n") {
		t.Fatalf("got %v and\n%s\nwant a timeout of 3 min, and --wait 5s", err, unit)
	}
	wait, err := time.ParseDuration(mountCommand().Flags().Lookup("wait").DefValue)
	if err != nil || wait > 10*time.Second {
		t.Errorf("got --wait %v and %v, want at most 10 s", wait, err)
	}
}
