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

// write writes a file below a folder, and makes the folders of its path.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// resolveLocal resolves an image on this machine.
func resolveLocal(t *testing.T, found LocalImage) error {
	t.Helper()
	client, images := clientOf(t, found, "linux/amd64")
	_, err := client.Resolve(t.Context(), images, nil)
	return err
}

// clientOf returns a client that reads an image on this machine.
func clientOf(t *testing.T, found LocalImage, platform pinset.Platform) (*Client, []pinset.Image) {
	t.Helper()
	client, err := NewClient(Access{}, platform)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	img := pinset.Image{Repository: "quay.example.com/site/app", Digest: found.Digest}
	client.AddLocal(img, found)
	return client, []pinset.Image{img}
}

// The reason of WithSparseIndex is for a missing instance. A bug was to give it for an instance
// that cannot be read, too.
func TestSparseIndex(t *testing.T) {
	reason := errors.New("dropped")
	instance := digest.FromString("instance")
	index := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[` +
		`{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":8,"digest":"` + instance.String() +
		`","platform":{"os":"linux","architecture":"amd64"}}]}`
	for name, missing := range map[string]bool{"missing": true, "unreadable": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, blobFile(digest.FromString(index)), index)
			if !missing {
				write(t, dir, blobFile(instance), "instance")
			}
			var tree Tree
			if err := tree.AddFolder(t.Context(), dir, ""); err != nil {
				t.Fatal(err)
			}
			images, err := ReadDistribution(&tree, dir)
			if err != nil {
				t.Fatal(err)
			}
			if !missing { // the tree has it, but it cannot be read
				if err := os.Remove(filepath.Join(dir, blobFile(instance))); err != nil {
					t.Fatal(err)
				}
			}
			err = resolveLocal(t, images.Image("", digest.FromString(index)).WithSparseIndex(reason))
			if err == nil || errors.Is(err, reason) != missing {
				t.Errorf("got %v, want an error, with the reason %q: %t", err, reason, missing)
			}
		})
	}
}

// Files of an OCI layout must be regular files. Bugs were to read an endless device until no memory
// was left, and to block for ever on a FIFO.
func TestLayoutsWithSpecialFiles(t *testing.T) {
	const blobs = "blobs/sha256/"
	manifest := digest.FromString("manifest")
	for name, c := range map[string]struct {
		file    string
		replace func(path string) error
	}{
		"the index is a device": {"index.json", func(path string) error { return os.Symlink("/dev/zero", path) }},
		"the index is a FIFO":   {"index.json", func(path string) error { return syscall.Mkfifo(path, 0o644) }},
		"the index is a folder": {"index.json", func(path string) error { return os.Mkdir(path, 0o755) }},
		"a manifest is a device": {
			blobs + manifest.Encoded(), func(path string) error { return os.Symlink("/dev/zero", path) },
		},
		"a manifest is a FIFO": {blobs + manifest.Encoded(), func(path string) error { return syscall.Mkfifo(path, 0o644) }},
		"a manifest is in a loop": {
			blobs + manifest.Encoded(), func(path string) error { return os.Symlink(filepath.Base(path), path) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "oci-layout", "{}")
			write(t, dir, "index.json", `{"manifests":[{"digest":"`+manifest.String()+`"}]}`)
			write(t, dir, blobs+manifest.Encoded(), "manifest")
			path := filepath.Join(dir, c.file)
			if err := errors.Join(os.Remove(path), c.replace(path)); err != nil {
				t.Fatal(err)
			}
			all, err := ReadLayout(dir)
			if err == nil {
				err = resolveLocal(t, all[0])
			}
			if !errors.Is(err, ErrLocal) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v that names %s", err, ErrLocal, path)
			}
		})
	}
}

// endless is a file without an end whose size is 0, like files of /proc.
type endless struct{}

func (endless) Open(string) (io.ReadCloser, int64, error) { return io.NopCloser(endless{}), 0, nil }
func (endless) Has(string) bool                           { return true }
func (endless) Read(p []byte) (int, error)                { return len(p), nil }

func TestEndlessFile(t *testing.T) {
	if _, err := readFile(endless{}, "index.json"); !errors.Is(err, ErrLocal) ||
		!strings.Contains(err.Error(), "index.json") {
		t.Errorf("got %v, want %v that names the file", err, ErrLocal)
	}
}
