package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// write makes a file in a folder, and the folders above it.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// resolveLocal asks for an image that is read from this machine.
func resolveLocal(t *testing.T, found Found) error {
	t.Helper()
	client, err := NewClient(Access{}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	img := pinset.Image{Repository: "quay.example.com/site/app", Digest: found.Digest}
	client.Provide(img, found)
	_, err = client.Resolve(t.Context(), []pinset.Image{img}, nil)
	return err
}

// Only an instance that is not there was dropped: a bug was to say so of one that is there
// and cannot be read.
func TestDroppedInstances(t *testing.T) {
	why := errors.New("dropped")
	instance := digest.FromString("instance")
	index := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":8,"digest":"` + instance.String() + `","platform":{"os":"linux","architecture":"amd64"}}]}`
	for _, there := range []bool{false, true} {
		dir := t.TempDir()
		write(t, dir, dataFile(digest.FromString(index)), index)
		if there {
			write(t, dir, dataFile(instance), "instance")
		}
		var tree Tree
		if err := tree.AddFolder(t.Context(), dir, ""); err != nil {
			t.Fatal(err)
		}
		images, err := ReadDistribution(&tree, dir)
		if err != nil {
			t.Fatal(err)
		}
		if there { // and cannot be read
			if err := os.Remove(filepath.Join(dir, dataFile(instance))); err != nil {
				t.Fatal(err)
			}
		}
		err = resolveLocal(t, images.Image("", digest.FromString(index)).Sparse(why))
		if err == nil || errors.Is(err, why) == there {
			t.Errorf("%t: %v", there, err)
		}
	}
}
