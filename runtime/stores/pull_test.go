package stores_test

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// If sets later ask for images that an attached store has, nothing is requested of the registry. Of a release that no
// store has, only new layers are pulled: those of attached stores are used in place. Then these stores cannot be
// detached.
func TestPullOverStores(t *testing.T) {
	t.Parallel()
	s, _, access := newOnlineSystem(t, 4)
	s.mustRun("firstboot")
	s.mustRun("attach", s.stores[1], "--keep-sets")
	s.mustRun("attach", newLoopDevice(t, s.stores[2]), "--keep-sets", "--in-place")
	s.wantPinned(0)
	for _, n := range []int{1, 2, 0} {
		s.WriteSet("worker.yaml", sample.SetNamed("worker", s.pins[n]...))
		s.mustRun("firstboot")
		s.wantPinned(n)
	}
	s.mustRun("attach", s.stores[2])
	if got := access.Take(); len(got) > 0 {
		t.Errorf("got the requests %v, want none", got)
	}
	s.pullOverStores(access)
	s.mustRun("rollback")
	s.wantExit(3, "the image 127.0.0.1", "detach", "2")
}

// pullOverStores pulls the last release over the stores of those before it.
func (s *testSystem) pullOverStores(access *fixtures.Access) {
	t := s.t
	t.Helper()
	before := s.mainStoreBytes()
	s.WriteSet("worker.yaml", sample.SetNamed("worker", s.pins[3]...))
	s.mustRun("firstboot")
	s.wantPinned(3)
	s.checkContainers(3)
	old, blobs := map[string]bool{}, 0
	for _, img := range s.lock(2).Images {
		for _, l := range img.Layers {
			old[l.Digest.String()] = true
		}
	}
	for _, request := range fixtures.Blobs(access.Take()) {
		blobs++
		if old[path.Base(request.Path)] {
			t.Errorf("got a request for %s, want none for layers of the stores", request.Path)
		}
	}
	if blobs == 0 {
		t.Error("got no requests for blobs, want some")
	}
	var unpacked int64
	for _, img := range s.lock(3).Images {
		for _, l := range img.Layers {
			if !old[l.Digest.String()] {
				unpacked += l.UnpackedSize
			}
		}
	}
	// records and folders take a little
	if written := s.mainStoreBytes() - before; written < unpacked/2 || written > 2*unpacked+200_000 {
		t.Errorf("got %d bytes written, want about the %d of the new layers", written, unpacked)
	}
}

// mainStoreBytes is the size of the files in CRI-O's main store, in bytes.
func (s *testSystem) mainStoreBytes() (sum int64) {
	s.t.Helper()
	err := filepath.Walk(s.Path("root"), func(_ string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			sum += fi.Size()
		}
		return nil // it may have been removed meanwhile
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return sum
}
