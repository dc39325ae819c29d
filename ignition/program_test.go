package ignition_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/layout"
)

// boot returns the command by which a unit runs the script of a configuration, for folders of a test and a program.
func boot(t *testing.T, config, word string, wanted []byte, replace ...string) (command string) {
	t.Helper()
	bu, err := ignition.Render(configs(t)[config])
	if err != nil {
		t.Fatal(err)
	}
	ign, err := ignition.Translate(bu)
	if err != nil {
		t.Fatal(err)
	}
	files, err := ignition.Files(ign)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replacer := strings.NewReplacer(append(replace, digest.FromString("pinbox-node").Encoded(),
		digest.FromBytes(wanted).Encoded())...)
	for _, name := range []string{layout.BootPath, layout.StoreEnvPath} {
		content := replacer.Replace(string(files[name]))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return "sh " + filepath.Join(dir, filepath.Base(layout.BootPath)) + " " + word
}

// install returns the command that installs the program from a store.
func install(t *testing.T, store, bin string, wanted []byte, replace ...string) (command string) {
	t.Helper()
	return boot(t, "live", "install_program", wanted, append(replace, "own=/var/lib/pinbox/stores/0/pinbox", "own="+store,
		"/usr/local/bin", bin)...)
}

// program returns a program that exits with 0. It is so large that a test can run it half written.
func program(n int) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\nexit 0 # %d %s\n", n, strings.Repeat("x", 1<<20))
}

// The program can be run while it is installed. A bug was to use only install(1), which unlinks the program
// and writes a file that cannot be executed: mounts of stores failed while pinbox-node.service started.
func TestProgramRunsWhileItIsInstalled(t *testing.T) {
	store, bin := t.TempDir(), t.TempDir()
	next := func(n int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(store, "pinbox-node"), program(n), 0o644); err != nil {
			t.Fatal(err)
		}
		fixtures.Run(t, "sh", "-c", install(t, store, bin, program(n)))
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
			if err := exec.Command(filepath.Join(bin, "pinbox-node")).Run(); err != nil {
				done <- fmt.Errorf("run %d: %w", runs, err)
				return
			}
		}
	}()
	for n := range 50 {
		next(n + 1)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("got %v while the program was installed, want no error", err)
	}
}

// If the store has the same program or is not mounted, the installed program is not written.
func TestProgramIsNotWrittenAgain(t *testing.T) {
	store, bin := t.TempDir(), t.TempDir()
	script := install(t, store, bin, program(0))
	source, installed := filepath.Join(store, "pinbox-node"), filepath.Join(bin, "pinbox-node")
	if err := os.WriteFile(source, program(0), 0o644); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "sh", "-c", script)
	before, err := os.Stat(installed)
	if err != nil || before.Mode() != 0o755 {
		t.Fatalf("got mode %v, %v; want 0755", before.Mode(), err)
	}
	same := func() {
		t.Helper()
		if after, err := os.Stat(installed); err != nil || !os.SameFile(before, after) ||
			!after.ModTime().Equal(before.ModTime()) {
			t.Errorf("got another file of the program, %v; want the file unchanged", err)
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
	script := install(t, store, bin, program(0))
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
			t.Errorf("%s: got another program, want the one from before", name)
		}
		if left, _ := filepath.Glob(filepath.Join(bin, "*new*")); len(left) > 0 {
			t.Errorf("%s: got the files %v, want none left", name, left)
		}
	}
}

// At a first boot from a store that is damaged or not mounted, the journal says so, and nothing is left of what
// could be read.
func TestProgramThatCannotBeRead(t *testing.T) {
	store, bin := t.TempDir(), t.TempDir()
	script := install(t, store, bin, program(0))
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"not mounted": {func(string) error { return nil }, "cannot be read: the store is damaged or not mounted"},
		// Reading it fails at once, as reading a damaged block does; install(1) has made its output then.
		"damaged":    {func(path string) error { return os.Symlink("/proc/self/mem", path) }, "damaged or not mounted"},
		"incomplete": {func(path string) error { return os.WriteFile(path, program(0)[:100], 0o755) }, "is not the one"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(store, "pinbox-node")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(path)
			out, err := exec.Command("sh", "-c", script).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("got %v, %s, want a failure with %q", err, out, c.want)
			}
			if left, err := os.ReadDir(bin); err != nil || len(left) > 0 {
				t.Errorf("got the files %v, %v, want none", left, err)
			}
		})
	}
}

// fetch returns the commands that fetch and install the program(0), for a server and folders of a test.
func fetch(t *testing.T, url, state, bin string) (script string) {
	t.Helper()
	fixtures.Need(t, "curl")
	replace := []string{"http://boot.lab:8080/pinbox", url, "/var/lib/pinbox", state, "/usr/local/bin", bin}
	return boot(t, "fetched", "fetch_program", program(0), replace...) + " && " +
		boot(t, "fetched", "install_program", program(0), replace...)
}

// A node that fetches its store fetches the program, too: once, and no other one than that of the configuration.
func TestProgramIsFetched(t *testing.T) {
	served, requests := program(0), 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 1 { // curl tries again
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(served)
	}))
	defer server.Close()
	bin, state := t.TempDir(), t.TempDir()
	start := func() ([]byte, error) {
		t.Helper()
		return exec.Command("sh", "-c", fetch(t, server.URL, state, bin)).CombinedOutput()
	}
	for range 2 {
		if out, err := start(); err != nil || requests != 2 {
			t.Fatalf("got %v after %d requests, want two: the second was answered\n%s", err, requests, out)
		}
		if out, err := exec.Command(filepath.Join(bin, "pinbox-node")).CombinedOutput(); err != nil {
			t.Errorf("got %v, want that the program runs\n%s", err, out)
		}
	}
	if err := os.Remove(filepath.Join(bin, "pinbox-node")); err != nil {
		t.Fatal(err)
	}
	served = program(1)
	if out, err := start(); err == nil || !strings.Contains(string(out), "is not the one of the configuration") {
		t.Errorf("another program: got %v, want an error\n%s", err, out)
	}
	if left, err := filepath.Glob(bin + "/*"); err != nil || len(left) > 0 {
		t.Errorf("got %q, %v, want no program", left, err)
	}
}
