package node

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/runtime/stores"
)

// What cannot be done with a store of a server is refused before a server or CRI-O is asked.
func TestAttachRefusesNames(t *testing.T) {
	const url = "https://files.invalid/1/"
	for name, c := range map[string]struct {
		dry  bool
		o    stores.AttachOptions
		want error
	}{
		"two files":        {false, stores.AttachOptions{Source: "a", Mirrors: []string{"b"}}, ErrMirrors},
		"a file and a URL": {false, stores.AttachOptions{Source: "a", Mirrors: []string{url}}, ErrMirrors},
		"a URL in place":   {false, stores.AttachOptions{Source: url, InPlace: true}, ErrRemoteInPlace},
		"a URL, dry":       {true, stores.AttachOptions{Source: url}, ErrRemoteDryRun},
	} {
		dir := t.TempDir()
		n := Open(Settings{DryRun: c.dry, Set: []string{
			"setsDir=" + filepath.Join(dir, "sets.d"), "crioDir=" + dir, "stateDir=" + dir, "socket=" + filepath.Join(dir, "none"),
		}})
		if _, err := n.Attach(t.Context(), c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}
