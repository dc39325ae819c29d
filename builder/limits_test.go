package builder_test

import (
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// registry is an empty one.
func registry(t *testing.T) *sample.Registry {
	t.Helper()
	r, err := sample.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// tarLayer is a layer of entries.
func tarLayer(t *testing.T, entries ...sample.Entry) *sample.Layer {
	t.Helper()
	stream, err := sample.Tar(entries...)
	if err != nil {
		t.Fatal(err)
	}
	l, err := sample.NewLayer(stream, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// pushed is the pin of an image of layers.
func pushed(t *testing.T, r *sample.Registry, repository string, layers ...v1.Layer) string {
	t.Helper()
	img, err := sample.Image("amd64", false, layers...)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := r.Push(t.Context(), repository, img)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// A container on as many layers as an image may have starts.
func TestAsManyLayersAsCanBeMounted(t *testing.T) {
	fixtures.NeedRoot(t)
	layer := tarLayer(t, sample.File("file", "of every layer"))
	pin := pushed(t, registry(t), "test/most", slices.Repeat([]v1.Layer{layer}, 500)...)
	o := options(t, sample.Set("worker", pin))
	build(t, o)
	root := oracle.Mount(t, oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, builder.StoreFile))), pin)
	if got := read(t, root, "file"); string(got) != "of every layer" {
		t.Errorf("the container sees %q", got)
	}
}
