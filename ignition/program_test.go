package ignition_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
)

// preparation finds the command by which a unit puts the program where it runs.
var preparation = regexp.MustCompile(`(?m)^ExecStartPre=-?/bin/sh -c '(.*)'$`)

// install gives the command of a golden unit, for folders of a test's own and a program.
func install(t *testing.T, unit, store, bin string, wanted []byte) (script string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(fixtures.Root(t), "fixtures/golden", unit))
	if err != nil {
		t.Fatal(err)
	}
	found := preparation.FindStringSubmatch(string(content))
	if found == nil {
		t.Fatalf("%s installs no program:\n%s", unit, content)
	}
	return strings.NewReplacer("/var/lib/pinbox/stores/0/pinbox", store, "/usr/local/bin", bin, "%N", "new",
		digest.FromString("pinbox-node").Encoded(), digest.FromBytes(wanted).Encoded()).Replace(found[1])
}

// program is one that ends well, and is large enough to be caught half written.
func program(n int) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\nexit 0 # %d %s\n", n, strings.Repeat("x", 1<<20))
}

// install(1) alone unlinks the program, and writes it with no right to be run: what
// called it while pinbox-node.service started was refused, CRI-O's stores among it.
func TestProgramIsThereWhileItIsInstalled(t *testing.T) {
	for _, unit := range []string{
		"live-pinbox-firstboot.service", "live-pinbox-node.service", "installer-pinbox-check-disk.service",
	} {
		store, bin := t.TempDir(), t.TempDir()
		installed := filepath.Join(bin, "pinbox-node")
		next := func(n int) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(store, "pinbox-node"), program(n), 0o644); err != nil {
				t.Fatal(err)
			}
			fixtures.Run(t, "sh", "-c", install(t, unit, store, bin, program(n)))
		}
		next(0)
		done := make(chan error)
		stop := make(chan struct{})
		go func() {
			defer close(done)
			for runs := 0; ; runs++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := exec.Command(installed).Run(); err != nil {
					done <- fmt.Errorf("run %d: %w", runs, err)
					return
				}
			}
		}()
		for n := range 100 {
			next(n + 1)
		}
		close(stop)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", unit, err)
		}
	}
}

// A start that finds the program as it is in the store writes nothing, and one that
// finds no store leaves what is there.
func TestProgramStays(t *testing.T) {
	store, bin := t.TempDir(), t.TempDir()
	script := install(t, "live-pinbox-node.service", store, bin, program(0))
	source, installed := filepath.Join(store, "pinbox-node"), filepath.Join(bin, "pinbox-node")
	if err := os.WriteFile(source, program(0), 0o644); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "sh", "-c", script)
	before, err := os.Stat(installed)
	if err != nil || before.Mode() != 0o755 {
		t.Fatalf("%v: %v", before.Mode(), err)
	}
	same := func() {
		t.Helper()
		if after, err := os.Stat(installed); err != nil || !os.SameFile(before, after) ||
			!after.ModTime().Equal(before.ModTime()) {
			t.Errorf("it was written again: %v", err)
		}
	}
	fixtures.Run(t, "sh", "-c", script)
	same()
	if err := os.Remove(source); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "sh", "-c", script)
	same()
}

// A store that somebody has changed, or another one with the label of the appliance's, brings no program that
// runs as root: that was installed from whatever was mounted.
func TestAnotherProgramIsNotInstalled(t *testing.T) {
	store, bin := t.TempDir(), t.TempDir()
	script := install(t, "live-pinbox-firstboot.service", store, bin, program(0))
	for name, before := range map[string][]byte{"at the first boot": nil, "later": program(7)} {
		installed := filepath.Join(bin, "pinbox-node")
		for file, content := range map[string][]byte{filepath.Join(store, "pinbox-node"): program(1), installed: before} {
			if err := os.WriteFile(file, content, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if before == nil {
			if err := os.Remove(installed); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command("sh", "-c", script).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "is not the one of the configuration") {
			t.Errorf("%s: got %v, %s, want a refusal", name, err, out)
		}
		if got, _ := os.ReadFile(installed); !bytes.Equal(got, before) {
			t.Errorf("%s: another program is installed", name)
		}
		if left, _ := filepath.Glob(filepath.Join(bin, ".*new*")); len(left) > 0 {
			t.Errorf("%s: got the files %v, want none left", name, left)
		}
	}
}
