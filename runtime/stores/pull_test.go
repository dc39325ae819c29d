package stores_test

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// A node that has a registry pulls the new layers alone: those of its stores are used
// where they are. Nothing of the store can be taken away then.
func TestPullOverStores(t *testing.T) {
	s, _, access := online(t, 3)
	s.must("attach", s.stores[1])
	if asked := access.Take(); len(asked) > 0 {
		t.Errorf("attach has asked the registry: %v", asked)
	}
	before := s.used()
	s.WriteSet("worker.yaml", sample.SetNamed("worker", s.pins[2]...))
	s.must("firstboot")
	s.pinned(2)
	s.runs(2)
	old, blobs := map[string]bool{}, 0
	for _, img := range s.lock(1).Images {
		for _, l := range img.Layers {
			old[l.Digest.String()] = true
		}
	}
	for _, request := range fixtures.Blobs(access.Take()) {
		blobs++
		if old[path.Base(request.Path)] {
			t.Errorf("a layer of the stores was fetched: %s", request.Path)
		}
	}
	if blobs == 0 {
		t.Error("nothing was fetched: this test shows nothing")
	}
	var unpacked int64
	for _, img := range s.lock(2).Images {
		for _, l := range img.Layers {
			if !old[l.Digest.String()] {
				unpacked += l.UnpackedSize
			}
		}
	}
	// records and folders take a little
	if written := s.used() - before; written < unpacked/2 || written > 2*unpacked+200_000 {
		t.Errorf("%d bytes were written for %d of new layers", written, unpacked)
	}
	s.must("rollback")
	s.refused(3, "the image 127.0.0.1", "detach", "1")
}

// used is the sum of the files in CRI-O's own store, in bytes.
func (s *site) used() (sum int64) {
	s.t.Helper()
	err := filepath.Walk(s.Path("root"), func(_ string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			sum += fi.Size()
		}
		return nil // it may have gone meanwhile
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return sum
}

// Images that a set asks for later, and that an attached store or medium has, come from
// there: no registry is asked, though there is one.
func TestSetsAreMetFromStores(t *testing.T) {
	s, _, access := online(t, 3)
	s.must("firstboot")
	s.must("attach", s.stores[1], "--keep-sets")
	s.must("attach", medium(t, s.stores[2]), "--keep-sets", "--in-place")
	s.pinned(0)
	for n := 1; n < 3; n++ {
		s.WriteSet("worker.yaml", sample.SetNamed("worker", s.pins[n]...))
		s.must("firstboot")
		s.pinned(n)
	}
	if asked := access.Take(); len(asked) > 0 {
		t.Errorf("the registry was asked: %v", asked)
	}
}
