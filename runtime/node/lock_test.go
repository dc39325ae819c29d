package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Everybody may read the status, and only root may open the lock of passes: who can open it can hold it.
func TestLockOfPassesIsPrivate(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	o := Open(Settings{Set: []string{"status=" + filepath.Join(run, "status.json")}})
	release, err := o.lock(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for name, want := range map[string]fs.FileMode{"": 0o755, "locks": 0o700, "locks/status.json.lock": 0o600} {
		if fi, err := os.Stat(filepath.Join(run, name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want %v", name, fi, err, want)
		}
	}
}
