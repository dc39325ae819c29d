package storage_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// testImage is an image with its blobs: "manifest", "config" and "layer".
type testImage struct {
	image   v1.Image
	digests map[string]digest.Digest
	blobs   map[string][]byte
}

// newTestImage makes an image of one layer that is not compressed, so that a change is detected
// only by its digest.
func newTestImage(t *testing.T) testImage {
	t.Helper()
	stream, err := sample.Tar(sample.File("file", "content"))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := sample.NewLayer(stream, types.OCIUncompressedLayer)
	if err != nil {
		t.Fatal(err)
	}
	img, err := sample.Image("amd64", false, layer)
	if err != nil {
		t.Fatal(err)
	}
	manifest, manifestErr := img.RawManifest()
	config, configErr := img.RawConfigFile()
	if err := errors.Join(manifestErr, configErr); err != nil {
		t.Fatal(err)
	}
	p := testImage{image: img, digests: map[string]digest.Digest{}}
	p.blobs = map[string][]byte{"manifest": manifest, "config": config, "layer": stream}
	for name, content := range p.blobs {
		p.digests[name] = digest.FromBytes(content)
	}
	return p
}

// changes of a blob that its digest does not have.
var changes = map[string]func([]byte) []byte{
	"a byte changed": func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
		return b
	},
	"truncated":     func(b []byte) []byte { return b[:len(b)-1] },
	"one byte more": func(b []byte) []byte { return append(bytes.Clone(b), ' ') },
	"empty":         func([]byte) []byte { return nil },
}

// fetch resolves an image and writes it into a store, as a build does.
func fetch(t *testing.T, client *storage.Client, img pinset.Image) error {
	t.Helper()
	resolved, err := client.Resolve(t.Context(), []pinset.Image{img}, nil)
	if err != nil {
		return err
	}
	compressor, err := squashfs.NewCompressor(squashfs.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	out, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	store, err := compose.NewStore(out, compressor, time.Unix(0, 0), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Abort()
	return client.Fill(t.Context(), store, resolved, storage.PackOptions{Compressor: compressor, Tmp: t.TempDir()}, nil)
}

func newClient(t *testing.T) *storage.Client {
	t.Helper()
	client, err := storage.NewClient(storage.Access{Insecure: []string{"127.0.0.1"}}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// testChanges calls fetch with the unchanged image, which must succeed, and with each change of
// each blob, which must fail with one of the errors.
func testChanges(
	t *testing.T, p testImage, fetch func(t *testing.T, blob string, content []byte) error, want ...error,
) {
	t.Run("unchanged", func(t *testing.T) {
		if err := fetch(t, "", nil); err != nil {
			t.Errorf("got %v, want no error", err)
		}
	})
	for blob, content := range p.blobs {
		for name, change := range changes {
			t.Run(blob+"/"+name, func(t *testing.T) {
				err := fetch(t, blob, change(content))
				if !slices.ContainsFunc(want, func(one error) bool { return errors.Is(err, one) }) {
					t.Errorf("got %v, want one of %v", err, want)
				}
			})
		}
	}
}

// Content of a registry that does not match its digest is refused.
func TestDigestsInARegistry(t *testing.T) {
	p := newTestImage(t)
	testChanges(t, p, func(t *testing.T, blob string, content []byte) error {
		registry, err := sample.Serve(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if blob == "" || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, p.digests[blob].String()) {
					next.ServeHTTP(w, r)
					return
				}
				answer := httptest.NewRecorder()
				next.ServeHTTP(answer, r)
				w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
				w.Header().Set("Content-Length", fmt.Sprint(len(content)))
				_, _ = w.Write(content) // fails if the client has closed the connection
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		defer registry.Close()
		pin, err := registry.Push(t.Context(), "app", p.image)
		if err != nil {
			t.Fatal(err)
		}
		img, err := pinset.ParseImage(pin)
		if err != nil {
			t.Fatal(err)
		}
		return fetch(t, newClient(t), img)
	}, storage.ErrDigest)
}

// Content of an OCI layout that does not match its digest is refused. ErrLocal is for a layer of
// another size, which is compared before the layer is read.
func TestDigestsInALayout(t *testing.T) {
	p := newTestImage(t)
	testChanges(t, p, func(t *testing.T, changed string, content []byte) error {
		dir := t.TempDir()
		files := map[string][]byte{
			"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`),
			"index.json": fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[{"mediaType":%q,"digest":%q,"size":%d}]}`,
				types.OCIManifestSchema1, p.digests["manifest"], len(p.blobs["manifest"])),
		}
		for name, blob := range p.blobs {
			if name == changed {
				blob = content
			}
			files["blobs/sha256/"+p.digests[name].Encoded()] = blob
		}
		for name, content := range files {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		all, err := storage.ReadLayout(dir)
		if err != nil || len(all) != 1 {
			t.Fatalf("got %d images, %v, want one", len(all), err)
		}
		client, img := newClient(t), pinset.Image{Repository: "quay.example.com/app", Digest: all[0].Digest}
		client.AddLocal(img, all[0])
		return fetch(t, client, img)
	}, storage.ErrDigest, storage.ErrLocal)
}

// A layer whose blob matches its digest, but not the DiffID of the configuration, is refused.
func TestDiffIDs(t *testing.T) {
	p := newTestImage(t)
	layers, err := p.image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	other, err := sample.Tar(sample.File("file", "kontent"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := sample.Image("amd64", false, layers[0].(*sample.Layer).WithBlob(other))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := sample.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	pin, err := registry.Push(t.Context(), "app", img)
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := pinset.ParseImage(pin)
	if err != nil {
		t.Fatal(err)
	}
	if err := fetch(t, newClient(t), pinned); err == nil || !strings.Contains(err.Error(), p.digests["layer"].String()) {
		t.Errorf("got %v, want an error that names the DiffID %s", err, p.digests["layer"])
	}
}
