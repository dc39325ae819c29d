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
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/squashfs"
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
	l, err := sample.TarLayer(entries...)
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
	root := oracle.Mount(t, oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, artifact.StoreFile))), pin)
	if got := read(t, root, "file"); string(got) != "of every layer" {
		t.Errorf("the container sees %q", got)
	}
}

// owned are files of so many owners, from one on.
func owned(first, n int) (entries []sample.Entry) {
	for id := first; id < first+n; id++ {
		e := sample.File(strconv.Itoa(id), "")
		e.Uid = id
		entries = append(entries, e)
	}
	return entries
}

// A squashfs numbers 65535 owners and groups, and the build did not say which layer has
// too many. A tar has no such limit.
func TestTooManyOwners(t *testing.T) {
	many, more := tarLayer(t, owned(1, 40_000)...), tarLayer(t, owned(100_000, 30_000)...)
	r := registry(t)
	first, second := pushed(t, r, "a/first", many), pushed(t, r, "b/second", many, more)
	guilty, err := more.Digest()
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, sample.Set("worker", first, second))
	if _, err := builder.Build(t.Context(), o); !errors.Is(err, squashfs.ErrTooManyIDs) ||
		!strings.Contains(err.Error(), "image "+second+": layer "+guilty.String()+": ") {
		t.Errorf("got %v, want the layer %s of %s", err, guilty, second)
	}
	if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was left: %v", err)
	}
	o.Appliance.Spec.Store.Format = format.Tar
	build(t, o)
}

// A set name of 240 bytes passed the plan, and its file could not be written when all
// had been fetched.
func TestLongSetNames(t *testing.T) {
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
	if err != nil || len(manifests) != 4 {
		t.Errorf("%v, %v", manifests, err)
	}
	for _, m := range manifests {
		content := read(t, filepath.Join(o.Out, artifact.ManifestsDir), m.Name())
		if !bytes.Equal(files["/etc/pinbox/sets.d/"+m.Name()], content) {
			t.Errorf("the node gets no %s", m.Name())
		}
		if stored := fixtures.Run(t, "unsquashfs", "-cat", filepath.Join(o.Out, artifact.StoreFile),
			"pinbox/sets/"+m.Name()); stored != string(content) {
			t.Errorf("the store has another %s", m.Name())
		}
	}
}
