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

// parts are an image and the digests of what it is made of.
type parts struct {
	image   v1.Image
	digests map[string]digest.Digest
	blobs   map[string][]byte
}

// newParts makes an image of one layer that is not compressed, so that nothing but its digest
// tells whether it has changed.
func newParts(t *testing.T) parts {
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
	p := parts{image: img, digests: map[string]digest.Digest{}}
	p.blobs = map[string][]byte{"manifest": manifest, "config": config, "layer": stream}
	for name, content := range p.blobs {
		p.digests[name] = digest.FromBytes(content)
	}
	return p
}

// tampering are the ways in which bytes may not be those that a digest names.
var tampering = map[string]func([]byte) []byte{
	"a byte changed": func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
		return b
	},
	"cut short":     func(b []byte) []byte { return b[:len(b)-1] },
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
	client, err := storage.NewClient(storage.Access{Insecure: true}, "linux/amd64")
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

// eachPart tries to fetch an image that is whole, and then with each part tampered with in
// each way, which must give one of the errors.
func eachPart(t *testing.T, p parts, try func(t *testing.T, part string, content []byte) error, want ...error) {
	t.Run("whole", func(t *testing.T) {
		if err := try(t, "", nil); err != nil {
			t.Errorf("got %v, want an image", err)
		}
	})
	for part, content := range p.blobs {
		for how, tamper := range tampering {
			t.Run(part+"/"+how, func(t *testing.T) {
				err := try(t, part, tamper(content))
				if !slices.ContainsFunc(want, func(one error) bool { return errors.Is(err, one) }) {
					t.Errorf("got %v, want one of %v", err, want)
				}
			})
		}
	}
}

// Whatever a registry serves under a digest that it does not have is refused.
func TestRegistryThatServesOtherBytes(t *testing.T) {
	p := newParts(t)
	eachPart(t, p, func(t *testing.T, part string, content []byte) error {
		registry, err := sample.Serve(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if part == "" || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, p.digests[part].String()) {
					next.ServeHTTP(w, r)
					return
				}
				answer := httptest.NewRecorder()
				next.ServeHTTP(answer, r)
				w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
				w.Header().Set("Content-Length", fmt.Sprint(len(content)))
				_, _ = w.Write(content) // or who asked has gone
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

// So is what stands in a file of an OCI layout. The size of a layer's file is looked at before
// anything is read.
func TestLayoutThatHoldsOtherBytes(t *testing.T) {
	p := newParts(t)
	eachPart(t, p, func(t *testing.T, part string, content []byte) error {
		dir := t.TempDir()
		files := map[string][]byte{
			"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`),
			"index.json": fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[{"mediaType":%q,"digest":%q,"size":%d}]}`,
				types.OCIManifestSchema1, p.digests["manifest"], len(p.blobs["manifest"])),
		}
		for name, blob := range p.blobs {
			if name == part {
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

// A layer that has the digest of its blob may still not be what the configuration says.
func TestLayerThatUnpacksToSomethingElse(t *testing.T) {
	p := newParts(t)
	layers, err := p.image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	other, err := sample.Tar(sample.File("file", "kontent"))
	if err != nil {
		t.Fatal(err)
	}
	lying, err := sample.Image("amd64", false, layers[0].(*sample.Layer).WithBlob(other))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := sample.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	pin, err := registry.Push(t.Context(), "app", lying)
	if err != nil {
		t.Fatal(err)
	}
	img, err := pinset.ParseImage(pin)
	if err != nil {
		t.Fatal(err)
	}
	if err := fetch(t, newClient(t), img); err == nil || !strings.Contains(err.Error(), p.digests["layer"].String()) {
		t.Errorf("got %v, want that it is not %s", err, p.digests["layer"])
	}
}
