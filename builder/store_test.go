package builder_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
)

func TestMain(m *testing.M) { oracle.Main(m) }

const (
	nodePackage   = "github.com/pinbox/pinbox/cmd/pinbox-node"
	samplePackage = "github.com/pinbox/pinbox/fixtures/program"
)

// serve starts a registry with the sample images.
func serve(t *testing.T) (*sample.Registry, sample.Pins) {
	t.Helper()
	program, err := os.ReadFile(fixtures.Program(t, samplePackage))
	if err != nil {
		t.Fatal(err)
	}
	registry, pins, err := sample.Start(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	return registry, pins
}

// options of a build of the given sets.
func options(t *testing.T, sets []byte) builder.Options {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "sets.yaml")
	if err := os.WriteFile(file, sets, 0o644); err != nil {
		t.Fatal(err)
	}
	return builder.Options{
		Appliance:  builder.NewAppliance([]string{file}),
		Out:        filepath.Join(dir, "out"),
		Access:     storage.Access{Insecure: true},
		NodeBinary: fixtures.Program(t, nodePackage),
	}
}

func build(t *testing.T, o builder.Options) builder.Result {
	t.Helper()
	r, err := builder.Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every image, mounted by containers/storage out of our store, is the tree that
// a pull by skopeo gives.
func TestImagesEqualThoseThatSkopeoPulls(t *testing.T) {
	fixtures.NeedRoot(t)
	_, pins := serve(t)
	o := options(t, pins.Sets())
	build(t, o)
	ours := oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, builder.StoreFile)))
	pulled := oracle.Open(t, oracle.Skopeo(t, pins.All()...))
	want := pins.All()
	slices.Sort(want)
	if diff := cmp.Diff(want, oracle.Names(t, ours)); diff != "" {
		t.Errorf("names in the store (-want +got):\n%s", diff)
	}
	for _, pin := range pins.All() {
		want := fixtures.Tree(t, oracle.Mount(t, pulled, pin))
		got := fixtures.Tree(t, oracle.Mount(t, ours, pin))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-skopeo +pinbox):\n%s", pin, diff)
		}
	}
}

func TestContainersStorageFindsNoFault(t *testing.T) {
	fixtures.NeedRoot(t)
	_, pins := serve(t)
	o := options(t, pins.Sets())
	build(t, o)
	store := oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, builder.StoreFile)))
	if complaints := oracle.Check(t, store); len(complaints) > 0 {
		t.Errorf("Check complains:\n%v", complaints)
	}
}
