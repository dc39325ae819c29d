package builder_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// registry serves an empty registry.
func registry(t *testing.T) *sample.Registry {
	t.Helper()
	r, err := sample.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// tarLayer makes a layer of entries.
func tarLayer(t *testing.T, entries ...sample.Entry) *sample.Layer {
	t.Helper()
	l, err := sample.TarLayer(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// pushed pushes an image of layers and returns its pin.
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

// An image of 500 layers can be mounted.
func TestMostLayersOfAnImage(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	layer := tarLayer(t, sample.File("file", "of every layer"))
	pin := pushed(t, registry(t), "test/most", slices.Repeat([]v1.Layer{layer}, 500)...)
	o := options(t, sample.Set("worker", pin))
	build(t, o)
	root := oracle.Mount(t, oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile))), pin)
	if got := read(t, root, "file"); string(got) != "of every layer" {
		t.Errorf("got %q in the image, want %q", got, "of every layer")
	}
}

// owned returns n files, each of another owner, from first on.
func owned(first, n int) (entries []sample.Entry) {
	for id := first; id < first+n; id++ {
		e := sample.File(strconv.Itoa(id), "")
		e.Uid = id
		entries = append(entries, e)
	}
	return entries
}

// A squashfs numbers 65535 owners and groups. A bug was an error that did not name the layer that has
// too many.
func TestTooManyOwners(t *testing.T) {
	t.Parallel()
	many, more := tarLayer(t, owned(1, 40_000)...), tarLayer(t, owned(100_000, 30_000)...)
	r := registry(t)
	first, second := pushed(t, r, "a/first", many), pushed(t, r, "b/second", many, more)
	refused, err := more.Digest()
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, sample.Set("worker", first, second))
	if _, err := builder.Build(t.Context(), o); !errors.Is(err, squashfs.ErrTooManyIDs) ||
		!strings.Contains(err.Error(), "image "+second+": layer "+refused.String()+": ") {
		t.Errorf("got %v, want %v for layer %s of %s", err, squashfs.ErrTooManyIDs, refused, second)
	}
	if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("output folder: got %v, want %v", err, os.ErrNotExist)
	}
}

// A bug was that a set with a name of 240 bytes could be planned, but its file could not be written after
// all images had been fetched.
func TestLongSetNames(t *testing.T) {
	t.Parallel()
	pin := pushed(t, registry(t), "test/image", tarLayer(t, sample.File("file", "x")))
	var sets []byte
	for _, size := range []int{240, 250, 251, 253} {
		sets = append(append(sets, "---\n"...), sample.SetNamed(strings.Repeat("n", size), pin)...)
	}
	o := options(t, sets)
	build(t, o)
	verified(t, o.Out)
	files, err := ignition.Files(read(t, o.Out, artifact.IgnitionFile))
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := os.ReadDir(filepath.Join(o.Out, artifact.ManifestsDir))
	manifests = slices.DeleteFunc(manifests, os.DirEntry.IsDir)
	if err != nil || len(manifests) != 4 {
		t.Errorf("got the manifests %v, %v; want 4", manifests, err)
	}
	for _, m := range manifests {
		t.Run(strconv.Itoa(len(m.Name())), func(t *testing.T) {
			content := read(t, filepath.Join(o.Out, artifact.ManifestsDir), m.Name())
			if got := files["/etc/pinbox/sets.d/"+m.Name()]; !bytes.Equal(got, content) {
				t.Errorf("got %q on the node, want %q", got, content)
			}
			if got := fixtures.Run(t, "unsquashfs", "-cat", filepath.Join(o.Out, layout.StoreFile),
				"pinbox/sets/"+m.Name()); got != string(content) {
				t.Errorf("got %q in the store, want %q", got, content)
			}
		})
	}
}
