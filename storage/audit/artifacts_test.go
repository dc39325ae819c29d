package audit_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// withArtifact adds an OCI artifact with the name "models:1" to a store.
func withArtifact() *store {
	s := valid()
	weights, config := []byte("weights"), []byte("{}")
	blob := func(content []byte) pinset.LockedBlob {
		d := digest.FromBytes(content)
		s.text(layout.ArtifactBlob(d), string(content))
		return pinset.LockedBlob{Digest: d, Size: int64(len(content)), MediaType: "application/octet-stream"}
	}
	manifest := blob(encode(object{
		"config": object{"digest": digest.FromBytes(config), "size": len(config)},
		"layers": []object{{"digest": digest.FromBytes(weights), "size": len(weights)}},
	}))
	s.lock.Artifacts = []pinset.LockedArtifact{{
		Pin: "quay.io/x/models@" + manifest.Digest.String(), Tags: []string{"quay.io/x/models:1"}, Type: "model",
		Blobs: []pinset.LockedBlob{manifest, blob(config), blob(weights)},
	}}
	s.text(layout.ArtifactsVersion, layout.ArtifactsVersionText)
	s.artifacts()
	s.write()
	return s
}

// artifacts writes the index of the artifacts in the lock.
func (s *store) artifacts() {
	s.text(layout.ArtifactsIndex, string(layout.RenderArtifacts(s.lock.Artifacts)))
}

// The OCI artifacts of a store are those of the lock, whole and alone.
func TestArtifacts(t *testing.T) {
	if c, err := audit.Store(withArtifact().MapFS); err != nil || c.Names["quay.io/x/models:1"] == "" {
		t.Fatalf("got the names %v, %v, want that of the artifact and no error", c.Names, err)
	}
	weights := layout.ArtifactBlob(digest.FromString("weights"))
	manifest := func(s *store) string { return layout.ArtifactBlob(s.lock.Artifacts[0].Manifest().Digest) }
	for name, test := range map[string]struct {
		damage func(*store)
		want   string
	}{
		"no index":        {func(s *store) { delete(s.MapFS, layout.ArtifactsIndex) }, "not the 1 artifacts of the lock"},
		"not in the lock": {func(s *store) { s.lock.Artifacts = nil; s.write() }, "is not in the lock"},
		"a name too few":  {func(s *store) { s.lock.Artifacts[0].Tags = nil; s.artifacts() }, "does not list quay.io/x/models:1"},
		"a name of an image": {func(s *store) {
			s.lock.Artifacts[0].Tags = []string{repository + ":1"}
			s.artifacts()
			s.write()
		}, "of another image or artifact"},
		"a blob that is missing": {func(s *store) { delete(s.MapFS, weights) }, "not exist"},
		"a blob that is shorter": {func(s *store) { s.text(weights, "w") }, "1 bytes, want 7"},
		"a link":                 {func(s *store) { s.MapFS[weights] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("/etc/pw")} }, "a symbolic link"},
		"a file more":            {func(s *store) { s.text(layout.ArtifactBlobsDir+"/x", "") }, "more than"},
		"another manifest":       {func(s *store) { s.text(manifest(s), strings.Repeat(" ", int(s.lock.Artifacts[0].Blobs[0].Size))) }, "another digest"},
		"a blob of the lock that the manifest does not list": {func(s *store) {
			s.lock.Artifacts[0].Blobs[2].Size = 8
			s.write()
		}, "does not list the blob"},
		"a blob of the manifest that the lock does not list": {func(s *store) {
			s.lock.Artifacts[0].Blobs = s.lock.Artifacts[0].Blobs[:2]
			s.write()
		}, "1 blobs too few"},
		"another version": {func(s *store) { s.text(layout.ArtifactsVersion, "{}") }, layout.ArtifactsVersion},
	} {
		t.Run(name, func(t *testing.T) {
			s := withArtifact()
			test.damage(s)
			if _, err := audit.Store(s.MapFS); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// A delta leaves out what its base has.
func TestArtifactsOfABase(t *testing.T) {
	s := withArtifact()
	for name := range s.MapFS {
		if strings.HasPrefix(name, layout.ArtifactsDir) {
			delete(s.MapFS, name)
		}
	}
	if _, err := audit.Store(s.MapFS); !errors.Is(err, audit.ErrInvalid) {
		t.Errorf("without a base: got %v, want %v", err, audit.ErrInvalid)
	}
	s.delta.Bases = []pinset.Base{{Lock: digest.FromString("lock")}}
	s.write()
	if _, err := audit.Store(s.MapFS); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestBlob(t *testing.T) {
	s, weights := withArtifact(), digest.FromString("weights")
	if err := audit.Blob(t.Context(), s.MapFS, weights); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	s.text(layout.ArtifactBlob(weights), "WEIGHTS")
	if err := audit.Blob(t.Context(), s.MapFS, weights); !errors.Is(err, audit.ErrInvalid) {
		t.Errorf("changed: got %v, want %v", err, audit.ErrInvalid)
	}
	sizes, err := audit.Blobs(s.MapFS)
	if err != nil || len(sizes) != 3 || sizes[weights] != 7 {
		t.Errorf("got %v, %v, want 3 blobs", sizes, err)
	}
}
