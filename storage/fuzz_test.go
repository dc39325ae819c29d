package storage

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Whatever a manifest or an index and a configuration of an OCI layout have, the image is resolved
// or refused.
func FuzzLayout(f *testing.F) {
	manifest := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":` +
		`"application/vnd.oci.image.config.v1+json","digest":"` + digest.FromString("{}").String() + `","size":2},"layers":[]}`
	f.Add([]byte(manifest), []byte(`{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]}}`))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{}]}`), []byte(`{}`))
	dir := f.TempDir() // one for all inputs, which are tried one after the other
	if err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600); err != nil {
		f.Fatal(err)
	}
	client, err := NewClient(Access{}, "linux/amd64")
	if err != nil {
		f.Fatal(err)
	}
	defer client.Close()
	f.Fuzz(func(t *testing.T, document, config []byte) {
		blob := func(content []byte) string { return filepath.Join("blobs/sha256", digest.FromBytes(content).Encoded()) }
		index := `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` +
			digest.FromBytes(document).String() + `","size":` + strconv.Itoa(len(document)) +
			`,"annotations":{"org.opencontainers.image.ref.name":"quay.io/a/b:1"}}]}`
		for name, content := range map[string][]byte{
			"index.json": []byte(index), blob(document): document, blob(config): config,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
			if name != "index.json" {
				defer os.Remove(filepath.Join(dir, name))
			}
		}
		images, err := ReadLayout(dir)
		if err != nil || len(images) == 0 {
			return
		}
		img := pinset.Image{Repository: "quay.example.com/site/app", Digest: images[0].Digest}
		client.AddLocal(img, images[0])
		_, _ = client.Resolve(t.Context(), []pinset.Image{img}, nil) // either is right, a panic is not
	})
}
