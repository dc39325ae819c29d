package source_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/builder/source"
)

// fuzzFile returns a function that writes what a fuzzer has made: one file for all inputs, which are tried one after
// the other.
func fuzzFile(f *testing.F, name string) (write func(t *testing.T, content []byte) string) {
	path := filepath.Join(f.TempDir(), name)
	return func(t *testing.T, content []byte) string {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// Components of a release are images with digests, whatever image-references has.
func FuzzImageReferences(f *testing.F) {
	f.Add([]byte(references(component("etcd", etcd), component("cli", cli))),
		[]byte(`{"kind":"cincinnati-metadata-v0","version":"4.18.3"}`))
	f.Fuzz(func(t *testing.T, references, metadata []byte) {
		payload, err := source.ParsePayload(references, metadata)
		if err != nil {
			return
		}
		components, err := payload.Select(nil, nil, true)
		if err != nil {
			return
		}
		for _, c := range components {
			_ = c.Image.Digest.Encoded() // panics if it is not a digest
		}
	})
}

// Images of Kubernetes objects have full names, whatever the objects are.
func FuzzManifests(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: 'quay.io/a/b:1'}]}\n"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n- &a {kind: Pod}\n- *a\n"))
	write := fuzzFile(f, "objects.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = source.ReadManifests(t.Context(), write(t, text), "")
	})
}

// An archive of oc-mirror is refused, whatever it has, unless it has images.
func FuzzOCMirrorArchive(f *testing.F) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, content := range map[string]string{
		"docker/registry/v2/repositories/a/_manifests/revisions/sha256/00/link": "sha256:00",
		"working-dir/info/x.json": "{}",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o600}); err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(archive.Bytes())
	write := fuzzFile(f, "mirror_000001.tar")
	f.Fuzz(func(t *testing.T, content []byte) {
		m := &source.OCMirror{Paths: []string{write(t, content)}}
		_, _ = m.Read(t.Context(), source.Options{})
	})
}
