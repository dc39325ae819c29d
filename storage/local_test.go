package storage

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
func resolveLocal(t *testing.T, found LocalImage) error {
	t.Helper()
	client, err := NewClient(Access{}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	img := pinset.Image{Repository: "quay.example.com/site/app", Digest: found.Digest}
	client.AddLocal(img, found)
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
		err = resolveLocal(t, images.Image("", digest.FromString(index)).WithSparseIndex(why))
		if err == nil || errors.Is(err, why) == there {
			t.Errorf("%t: %v", there, err)
		}
	}
}

// What is no regular file is refused: a bug was to read a device without an end until no
// memory was left, and to wait for ever at a FIFO.
func TestLayoutsOfNoFiles(t *testing.T) {
	const top = "blobs/sha256/" // of the image in the index
	manifest := digest.FromString("manifest")
	for name, c := range map[string]struct {
		file   string
		befall func(path string) error
	}{
		"the index is a device": {"index.json", func(path string) error { return os.Symlink("/dev/zero", path) }},
		"the index is a FIFO":   {"index.json", func(path string) error { return syscall.Mkfifo(path, 0o644) }},
		"the index is a folder": {"index.json", func(path string) error { return os.Mkdir(path, 0o755) }},
		"a manifest is a device": {
			top + manifest.Encoded(), func(path string) error { return os.Symlink("/dev/zero", path) },
		},
		"a manifest is a FIFO": {top + manifest.Encoded(), func(path string) error { return syscall.Mkfifo(path, 0o644) }},
		"a manifest is in a loop": {
			top + manifest.Encoded(), func(path string) error { return os.Symlink(filepath.Base(path), path) },
		},
	} {
		dir := t.TempDir()
		write(t, dir, "oci-layout", "{}")
		write(t, dir, "index.json", `{"manifests":[{"digest":"`+manifest.String()+`"}]}`)
		write(t, dir, top+manifest.Encoded(), "manifest")
		path := filepath.Join(dir, c.file)
		if err := errors.Join(os.Remove(path), c.befall(path)); err != nil {
			t.Fatal(err)
		}
		all, err := ReadLayout(dir)
		if err == nil {
			err = resolveLocal(t, all[0])
		}
		if !errors.Is(err, ErrLocal) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// endless is a file that has more than its size says, as those of /proc have.
type endless struct{}

func (endless) Open(string) (io.ReadCloser, int64, error) { return io.NopCloser(endless{}), 0, nil }
func (endless) Has(string) bool                           { return true }
func (endless) Read(p []byte) (int, error)                { return len(p), nil }

func TestFilesWithoutAnEnd(t *testing.T) {
	if _, err := readFile(endless{}, "index.json"); !errors.Is(err, ErrLocal) ||
		!strings.Contains(err.Error(), "index.json") {
		t.Error(err)
	}
}
