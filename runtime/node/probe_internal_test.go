package node

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/stores"
)

// A server is asked for a store before anything of it is fetched, and a path is looked at.
func TestProbeOfAStore(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, public := fixtures.Key(t)
	for name, test := range map[string]struct {
		source, keys string
		want         error
	}{
		"a folder of a server": {server.URL + "/42/", filepath.Dir(public), stores.ErrNoStore},
		"a file of a server":   {server.URL + "/42/delta.squashfs", filepath.Dir(public), stores.ErrNoDigest},
		"without TLS":          {server.URL + "/42/", filepath.Join(t.TempDir(), "none"), fetch.ErrPlain},
		"a path":               {"/nope/store.squashfs", filepath.Join(t.TempDir(), "none"), stores.ErrNoStore},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			n := Open(Settings{Set: []string{"stateDir=" + dir, "crioDir=" + dir, "keysDir=" + test.keys}})
			err := n.Probe(t.Context(), test.source, nil)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), strings.TrimSuffix(test.source, "/delta.squashfs")) {
				t.Errorf("got %v, want %v of %s", err, test.want, test.source)
			}
			if left := fixtures.Tree(t, dir); len(left) > 1 {
				t.Errorf("got %v, want nothing written", left)
			}
		})
	}
}
