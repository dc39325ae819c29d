package stores_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
)

// artifactStore makes a store with an OCI artifact of one blob, its manifest.
func artifactStore(t *testing.T, name, manifest string) (root string) {
	t.Helper()
	root, d := t.TempDir(), digest.FromString(manifest)
	write(t, filepath.Join(root, layout.ArtifactBlob(d)), manifest)
	write(t, filepath.Join(root, layout.ArtifactsIndex), string(layout.EncodeArtifacts([]layout.Artifact{
		{Name: name, Manifest: d, Size: int64(len(manifest))},
	})))
	return root
}

// The artifact store of CRI-O has what the mounted stores have, and nothing of one that is gone.
func TestLinkArtifacts(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	if err := stores.LinkArtifacts(dir, []string{empty}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, layout.ArtifactsDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v of a node without artifacts, want no folder", err)
	}
	first, second := artifactStore(t, "quay.io/x/a:1", "a"), artifactStore(t, "quay.io/x/b:1", "b")
	moved := artifactStore(t, "quay.io/x/a:1", "A")
	for _, step := range []struct {
		roots []string
		want  string // the names and the contents of their manifests
	}{
		{[]string{first, empty}, "quay.io/x/a:1=a"},
		{[]string{first, second}, "quay.io/x/a:1=a quay.io/x/b:1=b"},
		{[]string{first, moved}, "quay.io/x/a:1=a"},
		{[]string{moved, second}, "quay.io/x/a:1=A quay.io/x/b:1=b"},
		{nil, ""},
	} {
		if err := stores.LinkArtifacts(dir, step.roots); err != nil {
			t.Fatal(err)
		}
		found, err := layout.Open(os.DirFS(dir)).Artifacts()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range found {
			content, err := os.ReadFile(filepath.Join(dir, layout.ArtifactBlob(a.Manifest)))
			if err != nil {
				t.Error(err)
			}
			got = append(got, a.Name+"="+string(content))
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("got %v, want %s", got, step.want)
		}
	}
	if links, err := os.ReadDir(filepath.Join(dir, layout.ArtifactBlobsDir)); err != nil || len(links) > 0 {
		t.Errorf("got the links %v, %v without a store, want none", links, err)
	}
}
