package ignition_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

// The units install the program that pinbox-node has named, and not that of the appliance's own store again at each
// start. If the named one is damaged, the one that is installed stays.
func TestProgramOfALaterRelease(t *testing.T) {
	own, later, before := program(0), program(1), program(2)
	for name, c := range map[string]struct {
		named, installed, stored, want []byte
		fails                          string
	}{
		"moved on":               {named: later, stored: later, installed: own, want: later},
		"rolled back":            {named: before, stored: before, installed: later, want: before},
		"as it is":               {named: later, stored: nil, installed: later, want: later},
		"rolled back to the own": {installed: later, want: own},
		"first start":            {named: later, stored: later, want: later},
		"damaged":                {named: later, stored: later[:100], installed: before, want: before, fails: "Attach its store again"},
		"lost":                   {named: later, installed: before, want: before, fails: "Attach its store again"},
		"damaged, none installed": {
			named: later, stored: later[:100], want: own,
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, bin, programs := t.TempDir(), t.TempDir(), t.TempDir()
			sum := digest.FromBytes(later).Encoded()
			if c.named != nil {
				sum = digest.FromBytes(c.named).Encoded()
			}
			for file, content := range map[string][]byte{
				filepath.Join(store, "pinbox-node"): own, filepath.Join(bin, "pinbox-node"): c.installed,
				filepath.Join(programs, sum): c.stored,
			} {
				if content == nil {
					continue
				}
				if err := os.WriteFile(file, content, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if c.named != nil {
				if err := os.WriteFile(filepath.Join(programs, "current"), []byte(sum+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			script := install(t, store, bin, own, "/var/lib/pinbox/programs", programs)
			out, err := exec.Command("sh", "-c", script).CombinedOutput()
			if (err != nil) != (c.fails != "") || !strings.Contains(string(out), c.fails) {
				t.Errorf("got %v, %s, want an error with %q", err, out, c.fails)
			}
			got, err := os.ReadFile(filepath.Join(bin, "pinbox-node"))
			if string(got) != string(c.want) {
				t.Errorf("got the program %.30q, %v, want %.30q", got, err, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(bin, "*new*")); len(left) > 0 {
				t.Errorf("got the files %v, want none left", left)
			}
		})
	}
}

// A node that fetches its store keeps the program of a later release, and does not ask the server for that of its
// configuration. Without any program, it needs that one to fetch the store.
func TestFetchedProgramOfALaterRelease(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = w.Write(program(0))
	}))
	defer server.Close()
	for name, c := range map[string]struct {
		installed, want []byte
		requests        int
	}{
		"moved on": {program(1), program(1), 0},
		"lost":     {nil, program(0), 1},
	} {
		t.Run(name, func(t *testing.T) {
			state, bin := t.TempDir(), t.TempDir()
			path := filepath.Join(bin, "pinbox-node")
			err := os.Mkdir(filepath.Join(state, "programs"), 0o700)
			if err == nil {
				sum := digest.FromBytes(program(1)).Encoded() + "\n"
				err = os.WriteFile(filepath.Join(state, "programs/current"), []byte(sum), 0o600)
			}
			if err == nil && c.installed != nil {
				err = os.WriteFile(path, c.installed, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			requests = 0
			out, err := exec.Command("sh", "-c", fetch(t, server.URL, state, bin)).CombinedOutput()
			if got, _ := os.ReadFile(path); err != nil || requests != c.requests || string(got) != string(c.want) {
				t.Errorf("got %v, %d requests and the program %.30q, want %d and %.30q\n%s", err, requests, got, c.requests, c.want, out)
			}
		})
	}
}
