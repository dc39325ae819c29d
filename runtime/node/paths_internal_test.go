package node

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
)

// The keys that a node trusts, and its settings, are where they are, whatever folder of sets is given. A bug was to
// look for them beside that folder: a node with keys attached a store without a signature.
func TestKeysDoNotFollowTheSets(t *testing.T) {
	dir := t.TempDir()
	o := Open(Settings{Set: []string{"setsDir=" + filepath.Join(dir, "sets.d"), "crioDir=" + dir, "stateDir=" + dir}})
	beside := filepath.Join(dir, filepath.Base(layout.NodeConfigPath))
	if err := os.WriteFile(beside, []byte("no settings"), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := o.manager()
	if err != nil || m.Keys != layout.KeysDir {
		t.Errorf("got the keys %s, %v, want %s", m.Keys, err, layout.KeysDir)
	}
	keys := filepath.Join(dir, "keys")
	o.s.Set, o.s.Config = append(o.s.Set, "keysDir="+keys), filepath.Join(dir, "settings.json")
	if err := os.WriteFile(o.s.Config, []byte(`{"version": 1, "signed": "required"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if m, err = o.reopen().manager(); err != nil || m.Keys != keys || !m.Signed {
		t.Errorf("got the keys %s, signatures required %v, %v; want %s and true", m.Keys, m.Signed, err, keys)
	}
}

// A pipe in the place of the status is an error. A bug was to wait for who writes it, for ever.
func TestStatusThatIsAPipe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status.json")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := statusFile(file).load(); !errors.Is(err, input.ErrNotRegular) {
		t.Errorf("got %v, want %v", err, input.ErrNotRegular)
	}
}
