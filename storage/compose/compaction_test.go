package compose_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

func TestMain(m *testing.M) { oracle.Main(m) }

// release is a set of images with names of their own.
type release []named

type named struct {
	names      []string
	layers     [][]sample.Entry
	signatures []string
}

// bytesOf is data that does not compress.
func bytesOf(seed uint64, size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return string(b)
}

// releases are three of one product: each changes a layer, deletes and hides what
// earlier ones have, and keeps an image as it is under another name.
func releases() [3]release {
	base := []sample.Entry{
		sample.Dir("etc"), sample.File("etc/version", "1"), sample.Dir("data"),
		sample.File("data/large", bytesOf(1, 400_000)),
		sample.Hardlink("data/link", "data/large"), sample.Dir("data/tree"), sample.File("data/tree/leaf", "leaf"),
		sample.Symlink("data/symlink", "../etc/version"),
		{
			Header: tar.Header{Name: "data/owned", Uid: 1000, Gid: 3_000_000, Mode: 0o4750,
				PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}, Body: "owned",
		},
	}
	tool := []sample.Entry{
		sample.Dir("bin"), sample.File("bin/tool", bytesOf(2, 700_000)), sample.File("bin/replaced", "entry"),
		sample.File("bin/replaced", "later"),
	}
	change := func(n int) []sample.Entry {
		version := fmt.Sprint(n)
		return []sample.Entry{
			sample.File("etc/version", version), sample.File("data/new-"+version, bytesOf(uint64(n+10), 200_000)),
			sample.Opaque("data/tree"), sample.File("data/tree/fresh-"+version, version), sample.Whiteout("data/link"),
		}
	}
	same := named{names: []string{"example.org/same:1"}, layers: [][]sample.Entry{base}}
	app := named{
		names: []string{"example.org/app:1"}, layers: [][]sample.Entry{base, tool}, signatures: []string{"of release 1"},
	}
	app2 := named{
		names: []string{"example.org/app:2", "example.org/app:latest"}, layers: append(slices.Clip(app.layers), change(2)),
	}
	app3 := named{names: []string{"example.org/app:3"}, layers: append(slices.Clip(app2.layers), change(3))}
	again := func(n string) named {
		return named{
			names: []string{"example.org/same:" + n}, layers: same.layers, signatures: []string{
				"of release " + n, "and another",
			},
		}
	}
	return [3]release{{same, app}, {again("2"), app2}, {again("3"), app3}}
}

// store composes a store of releases and returns its file.
func store(t *testing.T, opts squashfs.Options, all ...release) string {
	t.Helper()
	compressor, err := squashfs.NewCompressor(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	out, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, out, compressor)
	for _, img := range slices.Concat(all...) {
		add(t, s, compressor, img)
	}
	root, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	image, err := out.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, func(w io.Writer) error { _, err := image.WriteTo(w); return err })
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "store.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := write(f); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// add adds an image and its layers to a store.
func add(t *testing.T, s *compose.Store, compressor *squashfs.Compressor, img named) {
	t.Helper()
	top := ""
	var layers []v1.Layer
	for _, entries := range img.layers {
		stream, err := sample.Tar(entries...)
		if err != nil {
			t.Fatal(err)
		}
		pack, err := packLayer(t, compressor, stream)
		if err != nil {
			t.Fatal(err)
		}
		diffID := digest.FromBytes(stream)
		u, err := s.AddLayer(compose.Layer{Parent: top, Digest: diffID, Size: int64(len(stream)), DiffID: diffID},
			source{bytes.NewReader(pack)}, int64(len(pack)))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := sample.NewLayer(stream, types.OCIUncompressedLayer)
		if err != nil {
			t.Fatal(err)
		}
		layers, top = append(layers, layer), u.ID
	}
	image, err := sample.Image("amd64", false, layers...)
	if err != nil {
		t.Fatal(err)
	}
	manifest, errManifest := image.RawManifest()
	config, errConfig := image.RawConfigFile()
	if err := errors.Join(errManifest, errConfig); err != nil {
		t.Fatal(err)
	}
	var signatures [][]byte
	for _, text := range img.signatures {
		signatures = append(signatures, []byte(text))
	}
	s.AddImage(compose.Image{
		Names: img.names, TopLayer: top, Manifest: manifest, Config: config, Signatures: signatures, Created: time.Unix(7, 0),
		Index: []byte(
			`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[],"annotations":{"for":"` +
				img.names[0] + `"}}`),
	})
}

func open(t *testing.T, file string) *squashfs.Reader {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, err := squashfs.OpenImage(f, fi.Size())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// compact compacts stores and returns the file of the one that they become.
func compact(t *testing.T, keep compose.Filter, files ...string) (string, *compose.Compaction) {
	t.Helper()
	var stores []*squashfs.Reader
	for _, file := range files {
		stores = append(stores, open(t, file))
	}
	plan, err := compose.NewCompaction(stores, keep)
	if err != nil {
		t.Fatal(err)
	}
	compacted, err := plan.Compose(t.Context(),
		[]compose.File{{Name: "pinbox/pinbox.lock.json", Perm: 0o644, Content: []byte("{}")}}, time.Unix(0, 0), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer compacted.Close()
	last := int64(0)
	name := written(t, func(w io.Writer) error {
		return compacted.Write(t.Context(), w, func(n int64) { last = n })
	})
	if last != compacted.Size() {
		t.Errorf("%d bytes of %d were reported", last, compacted.Size())
	}
	return name, plan
}

// delta compacts a full store into one that lacks the layers of others, and the images
// that are not in the release.
func delta(t *testing.T, full string, r release, bases ...string) (string, []pinset.Need) {
	t.Helper()
	there := map[string]bool{}
	for _, base := range bases {
		for _, id := range layersOf(t, base) {
			there[id] = true
		}
	}
	file, plan := compact(t, compose.Filter{
		Image: func(_ string, names []string) bool {
			return slices.ContainsFunc(r, func(img named) bool { return slices.Contains(names, img.names[0]) })
		},
		Layer: func(id string, needed bool) bool { return needed && !there[id] },
	}, full)
	return file, plan.Needs
}

// namesOf returns the names of all images of a store.
func namesOf(t *testing.T, file string) (names []string) {
	t.Helper()
	if err := layout.Open(open(t, file)).Images(func(i layout.Image) error {
		names = append(names, i.Names...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

func layersOf(t *testing.T, file string) (ids []string) {
	t.Helper()
	content, err := open(t, file).ReadFile("overlay-layers/layers.json")
	if err != nil {
		t.Fatal(err)
	}
	var records []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(content, &records); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}

// judge has containers/storage check mounted stores, and gives the trees of all
// images by their names.
func judge(t *testing.T, files ...string) map[string]map[string]string {
	t.Helper()
	var mounts []string
	for _, file := range files {
		mounts = append(mounts, fixtures.Mount(t, file))
	}
	library := oracle.Open(t, "", mounts...)
	if complaints := oracle.Check(t, library); len(complaints) > 0 {
		t.Errorf("containers/storage complains: %q", complaints)
	}
	trees := map[string]map[string]string{}
	for _, name := range oracle.Names(t, library) {
		trees[name] = fixtures.Tree(t, oracle.Mount(t, library, name))
	}
	return trees
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A chain, what it is compacted into, and a store that was full from the start are the
// same to containers/storage.
func TestCompactedStoresAreOneStore(t *testing.T) {
	fixtures.NeedRoot(t)
	all := releases()
	full := store(t, squashfs.Options{}, all[:]...)
	base := store(t, squashfs.Options{Level: squashfs.Fast}, all[0])
	d1, needs1 := delta(t, store(t, squashfs.Options{}, all[0], all[1]), all[1], base)
	d2, needs2 := delta(t, store(t, squashfs.Options{}, all[1], all[2]), all[2], base, d1)
	if len(needs1) != 2 || len(needs2) != 3 {
		t.Errorf("needs %v and %v", needs1, needs2)
	}
	one, plan := compact(t, compose.Filter{}, base, d1, d2)
	if len(plan.Layers) != 4 || len(plan.Dropped) != 0 || len(plan.Needs) != 0 {
		t.Errorf("plan %+v", plan)
	}
	if got := open(t, one).Options().Level; got != squashfs.Fast {
		t.Errorf("got the level %s, want that of the first store, %s", got, squashfs.Fast)
	}
	upper, plan := compact(t, compose.Filter{}, d1, d2)
	if diff := cmp.Diff(needs1, plan.Needs); diff != "" || len(plan.Layers) != 2 {
		t.Errorf("plan %+v, (-needs of the first delta, +of both)\n%s", plan, diff)
	}

	want := judge(t, full)
	if len(want) != 7 {
		t.Errorf("%d names to compare", len(want))
	}
	for name, stores := range map[string][]string{
		"stack": {base, d1, d2}, "compacted": {one}, "compacted deltas over the base": {base, upper},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, judge(t, stores...)); diff != "" {
				t.Errorf("(-full +%s)\n%.3000s", name, diff)
			}
		})
	}
	for _, name := range []string{
		"overlay-images/images.json", "overlay-images/images.lock", "overlay-layers/layers.json",
		"overlay-layers/layers.lock",
	} {
		want, errFull := open(t, full).ReadFile(name)
		got, errCompacted := open(t, one).ReadFile(name)
		if diff := cmp.Diff(string(want), string(got)); diff != "" || errFull != nil || errCompacted != nil {
			t.Errorf("%s (-full +compacted): %v, %v\n%s", name, errFull, errCompacted, diff)
		}
	}
	if lock, err := open(t, one).ReadFile("pinbox/pinbox.lock.json"); string(lock) != "{}" || err != nil {
		t.Errorf("lock %q, %v", lock, err)
	}
	again, _ := compact(t, compose.Filter{}, base, d1, d2)
	twice, _ := compact(t, compose.Filter{}, one)
	if !bytes.Equal(content(t, one), content(t, again)) || !bytes.Equal(content(t, one), content(t, twice)) {
		t.Error("equal input does not give equal bytes")
	}
}

// What no image needs any more is left out, with its data.
func TestCompactionLeavesOut(t *testing.T) {
	fixtures.NeedRoot(t)
	all := releases()
	other := release{
		{
			names: []string{"example.org/other:1"}, layers: [][]sample.Entry{
				{sample.Dir("other"), sample.File("other/large", bytesOf(9, 900_000))},
			},
		},
	}
	base := store(t, squashfs.Options{}, all[0], other)
	whole, _ := compact(t, compose.Filter{}, base)
	less, plan := compact(t, compose.Filter{Image: func(_ string, names []string) bool {
		return !slices.Contains(names, "example.org/other:1")
	}}, base)
	if len(plan.Layers) != 2 || len(plan.Dropped) != 1 || len(plan.Needs) != 0 {
		t.Errorf("plan %+v", plan)
	}
	if saved := len(content(t, whole)) - len(content(t, less)); saved < 890_000 || saved > 920_000 {
		t.Errorf("%d bytes are saved of 900000", saved)
	}
	if diff := cmp.Diff(judge(t, store(t, squashfs.Options{}, all[0])), judge(t, less)); diff != "" {
		t.Errorf("(-store of what is kept +compacted)\n%.3000s", diff)
	}
	renamed, _ := compact(t, compose.Filter{Name: func(id, name string) bool {
		return len(id) == 64 && name != "example.org/other:1"
	}}, base)
	if got := namesOf(t, renamed); len(got) != len(namesOf(t, base))-1 || slices.Contains(got, "example.org/other:1") {
		t.Errorf("got the names %v, want all but example.org/other:1", got)
	}
	// A container may stand on a layer of which no image is left.
	kept, plan := compact(t, compose.Filter{
		Image: func(string, []string) bool { return false },
		Layer: func(id string, _ bool) bool { return id == layersOf(t, base)[1] },
	}, base)
	if diff := cmp.Diff([]string{layersOf(t, base)[0]}, []string{plan.Needs[0].Layer}); diff != "" ||
		len(plan.Needs) != 1 {
		t.Errorf("needs %v", plan.Needs)
	}
	if ids := layersOf(t, kept); len(ids) != 1 {
		t.Errorf("layers %v", ids)
	}
}

func TestStoresThatCannotBeCompacted(t *testing.T) {
	all := releases()
	base := store(t, squashfs.Options{}, all[0])
	other := store(t, squashfs.Options{Compression: squashfs.Gzip}, all[1])
	plan, err := compose.NewCompaction([]*squashfs.Reader{open(t, base), open(t, other)}, compose.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Compose(t.Context(), nil, time.Unix(0, 0), t.TempDir()); !errors.Is(err, squashfs.ErrIncompatible) ||
		!strings.HasPrefix(err.Error(), "store 2 of 2: ") {
		t.Errorf("another compression: got %v, want %v of store 2 of 2", err, squashfs.ErrIncompatible)
	}
	id := strings.Repeat("a", 64)
	for name, records := range map[string][2]string{
		"a field from the future":  {`[{"id":"` + id + `","diff-digest":"sha256:` + id + `","future":1}]`, `[]`},
		"a layer of another name":  {`[{"id":"` + strings.Repeat("b", 64) + `","diff-digest":"sha256:` + id + `"}]`, `[]`},
		"a layer without a digest": {`[{"id":"` + id + `"}]`, `[]`},
		"no list":                  {`{}`, `[]`},
		"an image of another name": {`[]`, `[{"id":"../x"}]`},
		"no image":                 {`[]`, `[null]`},
	} {
		if _, err := compose.NewCompaction([]*squashfs.Reader{open(t, base), open(t, recorded(t, records))},
			compose.Filter{}); !errors.Is(err, compose.ErrForeignStore) || !strings.HasPrefix(err.Error(), "store 2 of 2: ") {
			t.Errorf("%s: got %v, want %v of store 2 of 2", name, err, compose.ErrForeignStore)
		}
	}
	if _, err := compose.NewCompaction([]*squashfs.Reader{open(t, recorded(t,
		[2]string{`[]`, `[{"id":"` + id + `","big-data-names":["x"]}]`},
	))}, compose.Filter{}); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "store 1 of 1: image "+id) {
		t.Errorf("an image without its documents: got %v, want %v of image %s", err, os.ErrNotExist, id)
	}
}

// A layer is in the records of a store, but not in its folders.
func TestCompactionWithoutALayer(t *testing.T) {
	id := strings.Repeat("a", 64)
	file := recorded(t, [2]string{`[{"id":"` + id + `","diff-digest":"sha256:` + id + `"}]`, `[]`})
	all := compose.Filter{Layer: func(string, bool) bool { return true }}
	plan, err := compose.NewCompaction([]*squashfs.Reader{open(t, file)}, all)
	if err != nil {
		t.Fatal(err)
	}
	_, err = plan.Compose(t.Context(), nil, time.Unix(0, 0), t.TempDir())
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "store 1 of 1: layer "+id) {
		t.Errorf("got %v, want %v of layer %s", err, os.ErrNotExist, id)
	}
}

// recorded writes a store of two files of records, and nothing else.
func recorded(t *testing.T, records [2]string) string {
	t.Helper()
	compressor, err := squashfs.NewCompressor(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	var b bytes.Buffer
	p := compressor.NewPacker(&b)
	defer p.Abort()
	root := squashfs.NewDir(0o755, 0, 0, 0)
	for n, kind := range []string{"layers", "images"} {
		dir := squashfs.NewDir(0o755, 0, 0, 0)
		root.Set("overlay-"+kind, dir)
		list, err := p.Content(strings.NewReader(records[n]))
		if err != nil {
			t.Fatal(err)
		}
		dir.Set(kind+".json", &squashfs.Inode{Mode: syscall.S_IFREG | 0o600, Content: list})
	}
	if err := p.Close(root, nil); err != nil {
		t.Fatal(err)
	}
	pack, err := compressor.OpenPack(source{bytes.NewReader(b.Bytes())}, int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	out, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out.AddPack(pack)
	image, err := out.Close(pack.Root)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, func(w io.Writer) error { _, err := image.WriteTo(w); return err })
}

// A store that is cut short after it was opened, and a compaction that is no longer wanted,
// end with an error.
func TestCompactionThatIsCutShort(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(file string, cancel func()) error
		want  error
	}{
		"store cut short": {func(file string, _ func()) error { return os.Truncate(file, 300_000) }, squashfs.ErrDamaged},
		"cancelled":       {func(_ string, cancel func()) error { cancel(); return nil }, context.Canceled},
		"neither":         {func(string, func()) error { return nil }, nil},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		base := store(t, squashfs.Options{}, releases()[0])
		plan, err := compose.NewCompaction([]*squashfs.Reader{open(t, base)}, compose.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		compacted, err := plan.Compose(ctx, nil, time.Unix(0, 0), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := test.spoil(base, cancel); err != nil {
			t.Fatal(err)
		}
		if err := compacted.Write(ctx, io.Discard, func(int64) {}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
