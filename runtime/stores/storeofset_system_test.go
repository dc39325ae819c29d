package stores_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
)

// setWithStore is a set whose annotation names a store.
func setWithStore(store string, pins ...string) []byte {
	return []byte(strings.Replace(string(sample.SetNamed("worker", pins...)), "metadata:\n",
		"metadata:\n  annotations: {pinbox.dev/store: '"+store+"'}\n", 1))
}

// A node takes the store that a set names, and pulls nothing. If the store cannot be had, it pulls as without one, and
// the status says why; the same for a name that is not one of a server.
func TestStoreThatASetNames(t *testing.T) {
	t.Parallel()
	s, _, images := newOnlineSystem(t, 4)
	s.mustRun("firstboot")
	url, access := s.fileServer(s.stores[1])
	name := url + "/delta.squashfs"
	images.Take()

	s.WriteSet("worker.yaml", setWithStore(name, s.pins[1]...))
	s.mustRun("firstboot")
	s.wantPinned(1)
	s.checkContainer(1)
	if got := images.Take(); len(got) > 0 {
		t.Errorf("got the requests %v for images, want none", got)
	}
	var status runtime.Status
	if s.Status(&status); status.Sets[0].Store != name || status.Sets[0].StoreError != "" || len(status.Stores) != 1 {
		t.Errorf("got %+v with %d stores, want the store of the set without an error", status.Sets[0], len(status.Stores))
	}

	access.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "away", http.StatusInternalServerError)
		return true
	})
	for release, c := range map[int]struct{ store, want string }{
		2: {name, "500"}, 3: {s.stores[3], "not the name of a store on a server"},
	} {
		s.WriteSet("worker.yaml", setWithStore(c.store, s.pins[release]...))
		s.mustRun("firstboot")
		s.wantPinned(release)
		status, want := runtime.Status{}, c.want
		if s.Status(&status); !strings.Contains(status.Sets[0].StoreError, want) || len(status.Errors) > 0 {
			t.Errorf("got %+v and %v, want %q in storeError alone", status.Sets[0], status.Errors, want)
		}
		if out := s.Do("status").Out; !strings.Contains(out, "set worker: its images are pulled, since its store was not") {
			t.Errorf("got %s, want that the images are pulled", out)
		}
	}
	if len(fixtures.Blobs(images.Take())) == 0 {
		t.Error("got no blobs that were pulled, want some")
	}
}
