package storage_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// A layer that is only at the URLs of its manifest is not there, and nothing is damaged: a bug was to say so of the
// layout, and of a registry that it had lost the image.
func TestForeignLayers(t *testing.T) {
	p := newTestImage(t)
	for _, mediaType := range []string{
		"application/vnd.oci.image.layer.nondistributable.v1.tar", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
	} {
		var m map[string]any
		if err := json.Unmarshal(p.blobs["manifest"], &m); err != nil {
			t.Fatal(err)
		}
		layer := m["layers"].([]any)[0].(map[string]any)
		layer["mediaType"], layer["urls"] = mediaType, []string{"https://layers.example.com/1"}
		manifest, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for place, err := range map[string]error{
			"layout": foreignInLayout(t, p, manifest), "registry": foreignInRegistry(t, p, manifest),
		} {
			f := fault.Of(err)
			if !errors.Is(err, storage.ErrForeign) || errors.Is(err, storage.ErrLocal) || f == nil || f.Exit != fault.Input ||
				!strings.Contains(err.Error(), p.digests["layer"].String()) {
				t.Errorf("%s, %s: got %v, want %v with the layer", mediaType, place, err, storage.ErrForeign)
			}
		}
	}
}

func foreignInLayout(t *testing.T, p testImage, manifest []byte) error {
	t.Helper()
	dir, d := t.TempDir(), digest.FromBytes(manifest)
	index := `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` + d.String() + `"}]}`
	for name, content := range map[string][]byte{
		"index.json": []byte(index), "blobs/sha256/" + d.Encoded(): manifest,
		"blobs/sha256/" + p.digests["config"].Encoded(): p.blobs["config"],
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := storage.ReadLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	client, err := storage.NewClient(storage.Access{InsecurePolicy: true}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	img := pinset.Image{Repository: "quay.io/a/b", Digest: d}
	client.AddLocal(img, found[0])
	return fetch(t, client, img)
}

func foreignInRegistry(t *testing.T, p testImage, manifest []byte) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v2/":
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			_, _ = w.Write(manifest)
		case strings.HasSuffix(r.URL.Path, p.digests["config"].String()):
			_, _ = w.Write(p.blobs["config"])
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	client, err := storage.NewClient(storage.Access{Insecure: []string{host}, InsecurePolicy: true}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return fetch(t, client, pinset.Image{Repository: host + "/a/b", Digest: digest.FromBytes(manifest)})
}
