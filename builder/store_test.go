package builder_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/root"
)

// Tests run in parallel, but for those that measure, and those of a build of format dir: meanwhile the environment of
// the whole process has a configuration of containers/storage.

func TestMain(m *testing.M) {
	if !root.Init() {
		oracle.Main(m)
	}
}

// options returns the options of a build of sets. The program in the store is a small one, which takes less time to
// compress than pinbox-node: only the machines of firstBoot run it.
func options(t testing.TB, sets []byte) builder.Options {
	t.Helper()
	o := appliance.Options(t, sets)
	o.NodeBinary = fixtures.Program(t, "github.com/pinbox/pinbox/fixtures/program")
	return o
}

// build builds an appliance.
func build(t *testing.T, o builder.Options) builder.Result {
	t.Helper()
	return appliance.Build(t, o)
}

// containers/storage mounts the same tree for each image, whether from pinbox's store or after a pull by
// skopeo.
func TestImagesEqualThoseThatSkopeoPulls(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	build(t, o)
	ours := oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile)))
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

// The lock has the unpacked size of each layer, as containers/storage has it after a pull.
func TestUnpackedSizesInTheLock(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	build(t, o)
	layers, err := oracle.Open(t, oracle.Skopeo(t, pins.All()...)).Layers()
	if err != nil {
		t.Fatal(err)
	}
	pulled := map[digest.Digest]int64{}
	for _, l := range layers {
		pulled[l.UncompressedDigest] = l.UncompressedSize
	}
	for _, img := range appliance.Lock(t, o.Out).Images {
		for _, l := range img.Layers {
			if l.UnpackedSize != pulled[l.DiffID] || l.UnpackedSize == 0 || l.Inodes < 2 {
				t.Errorf("%s, layer %s: got %d bytes in %d inodes, want %d bytes in at least 2", img.Pin, l.Digest,
					l.UnpackedSize, l.Inodes, pulled[l.DiffID])
			}
		}
	}
}

func TestContainersStorageFindsNoFault(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	build(t, o)
	store := oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile)))
	if complaints := oracle.Check(t, store); len(complaints) > 0 {
		t.Errorf("got from Check, want nothing:\n%v", complaints)
	}
}

// The control: Check reports a changed byte of a layer.
func TestContainersStorageFindsAChangedByte(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	build(t, o)
	dir := filepath.Join(t.TempDir(), "store")
	fixtures.Run(t, "unsquashfs", "-quiet", "-no-progress", "-dest", dir, filepath.Join(o.Out, layout.StoreFile))
	if complaints := oracle.Check(t, oracle.Open(t, "", dir)); len(complaints) > 0 {
		t.Fatalf("got from Check before the change, want nothing:\n%v", complaints)
	}
	files, err := filepath.Glob(filepath.Join(dir, "overlay/*/diff/data/large"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got the files %v, %v; want one", files, err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("X"), 1000); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if complaints := oracle.Check(t, oracle.Open(t, "", dir)); len(complaints) == 0 {
		t.Error("got nothing from Check, want the changed byte")
	}
}

// onlyTar makes layers with sparse files of both formats of GNU tar, and with names that occur twice.
func onlyTar(t *testing.T) map[string][]byte {
	t.Helper()
	sparse := t.TempDir()
	if err := os.Truncate(touch(t, sparse, "sparse"), 5<<20); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "sh", "-c", "printf data | dd status=none bs=1 seek=3000000 conv=notrunc of="+filepath.Join(sparse,
		"sparse"))
	layers := map[string][]byte{}
	for _, format := range []string{"gnu", "pax"} {
		file := filepath.Join(t.TempDir(), "layer.tar")
		fixtures.Run(t, "tar", "--format="+format, "--sparse", "-C", sparse, "-cf", file, "sparse")
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		layers["sparse-"+format] = content
	}
	repeated, err := sample.Tar(
		sample.File("twice", "first"), sample.Dir("d"), sample.File("d/leaf", "leaf"), sample.File("thrice", "1"),
		sample.Hardlink("name-of-first", "twice"), sample.File("twice", "the second one"), sample.File("thrice", "22"),
		sample.File("thrice", "333"),
		sample.Dir("e"), sample.Dir("e"), sample.Symlink("link", "d"), sample.File("link/below", "below a link"),
		sample.File("link", "no link any more"))
	if err != nil {
		t.Fatal(err)
	}
	layers["repeated"] = repeated
	return layers
}

// skopeo cannot pull some layers, as tar-split refuses a name that occurs twice, and drops sparse files.
// pinbox gives them the trees that GNU tar gives, and containers/storage restores them with the right
// digests.
func TestLayersThatOnlyTarCanRead(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	registry, err := sample.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	pins, trees := []string{}, map[string]map[string]string{}
	for name, content := range onlyTar(t) {
		layer, err := sample.NewLayer(content, types.OCILayer)
		if err != nil {
			t.Fatal(err)
		}
		img, err := sample.Image("amd64", false, layer)
		if err != nil {
			t.Fatal(err)
		}
		pin, err := registry.Push(t.Context(), "layers/"+name, img)
		if err != nil {
			t.Fatal(err)
		}
		file, dir := filepath.Join(t.TempDir(), "layer.tar"), t.TempDir()
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		fixtures.Run(t, "tar", "-C", dir, "-xpf", file)
		pins, trees[pin] = append(pins, pin), fixtures.Tree(t, dir)
	}
	o := options(t, sample.Set("layers", pins...))
	build(t, o)
	store := oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile)))
	for pin, want := range trees {
		got := fixtures.Tree(t, oracle.Mount(t, store, pin))
		delete(want, ".")
		delete(got, ".")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-tar +pinbox):\n%s", pin, diff)
		}
	}
	for want, got := range oracle.Rebuilt(t, store) {
		if want != got {
			t.Errorf("got %s as the digest of the restored layer, want %s", got, want)
		}
	}
	for _, complaint := range oracle.Check(t, store) {
		// Check splits the restored layer with tar-split, which refuses it.
		if !strings.Contains(complaint, "duplicates of file paths not supported") {
			t.Errorf("got %q from Check, want nothing", complaint)
		}
	}
}

// touch makes an empty file and returns its path.
func touch(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTwoBuildsAreEqual(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	var sums []string
	for range 2 {
		o := options(t, pins.Sets())
		build(t, o)
		content, err := os.ReadFile(filepath.Join(o.Out, layout.SumsFile))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(content))
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("sums (-first +second):\n%s", diff)
	}
}

// The store has the lock and the sets.
func TestLockAndSetsInTheStore(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	build(t, o)
	dir := fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile))
	for inside, outside := range map[string]string{
		"pinbox/pinbox.lock.json":        layout.LockFile,
		"pinbox/sets/worker-sample.yaml": "manifests/worker-sample.yaml",
		"pinbox/sets/infra-sample.yaml":  "manifests/infra-sample.yaml",
	} {
		got, err := os.ReadFile(filepath.Join(dir, inside))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(o.Out, outside))
		if err != nil || string(got) != string(want) {
			t.Errorf("got %q, %v as %s, want %q, as in %s", got, err, inside, want, outside)
		}
	}
}

// SOURCE_DATE_EPOCH is the time of files that are not from an image.
func TestModTimeOfTheStore(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	o.ModTime = time.Unix(1234567890, 0)
	build(t, o)
	dir := fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile))
	for _, name := range []string{".", "overlay-images/images.json", "pinbox/pinbox-node"} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || !fi.ModTime().Equal(o.ModTime) {
			t.Errorf("%s: got %v, %v; want the time %v", name, fi, err, o.ModTime)
		}
	}
}
