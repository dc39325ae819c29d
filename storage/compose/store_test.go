package compose_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// composed makes a store, in which nothing is older than 1000 seconds after 1970, and reads it.
func composed(t *testing.T, fill func(*compose.Store, *squashfs.Compressor)) *squashfs.Reader {
	t.Helper()
	compressor := newCompressor(t)
	out, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(1000, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := compose.NewStore(out, compressor, time.Unix(1000, 0), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fill(s, compressor)
	root, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	image, err := out.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, written(t, func(w io.Writer) error { _, err := image.WriteTo(w); return err }))
}

func newCompressor(t *testing.T) *squashfs.Compressor {
	t.Helper()
	compressor, err := squashfs.NewCompressor(squashfs.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(compressor.Close)
	return compressor
}

// files lists the files of a store below a folder: mode, time and content by their paths.
func files(t *testing.T, store *squashfs.Reader, below string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(store, below, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := entry.Info()
		if err != nil {
			return err
		}
		all[name] = fi.Mode().String() + " " + fi.ModTime().UTC().Format(time.TimeOnly)
		if fi.Mode().IsRegular() {
			content, err := store.ReadFile(name)
			all[name] += " " + string(content)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func packFile(t *testing.T, compressor *squashfs.Compressor, content string) source {
	t.Helper()
	var pack bytes.Buffer
	if err := compose.PackFile(compressor, strings.NewReader(content), digest.FromString(content), &pack); err != nil {
		t.Fatal(err)
	}
	return source{bytes.NewReader(pack.Bytes())}
}

// A file is the same in a store, whether it was packed before or not.
func TestPackedFiles(t *testing.T) {
	store := composed(t, func(s *compose.Store, compressor *squashfs.Compressor) {
		small, empty := packFile(t, compressor, "packed"), packFile(t, compressor, "")
		err := errors.Join(
			s.AddFile("pinbox/files/etc/added", 0o640, strings.NewReader("added")),
			s.AddPackedFile("pinbox/files/etc/packed", 0o755, digest.FromString("packed"), small, small.Size()),
			s.AddPackedFile("/pinbox/files//opt/./empty", 0o600, digest.FromString(""), empty, empty.Size()),
		)
		if err != nil {
			t.Fatal(err)
		}
	})
	want := map[string]string{
		"pinbox":                  "drwxr-xr-x 00:16:40",
		"pinbox/files":            "drwxr-xr-x 00:16:40",
		"pinbox/files/etc":        "drwxr-xr-x 00:16:40",
		"pinbox/files/etc/added":  "-rw-r----- 00:16:40 added",
		"pinbox/files/etc/packed": "-rwxr-xr-x 00:16:40 packed",
		"pinbox/files/opt":        "drwxr-xr-x 00:16:40",
		"pinbox/files/opt/empty":  "-rw------- 00:16:40 ",
	}
	if diff := cmp.Diff(want, files(t, store, "pinbox")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestPacksOfSomethingElse(t *testing.T) {
	compressor := newCompressor(t)
	layer, err := packLayer(t, compressor, tarStream(t, sample.File("a", "x")))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := compose.PackFile(compressor, strings.NewReader("file"), digest.FromString("file"), &file); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		pack []byte
		add  func(*compose.Store, source) error
		want string
	}{
		"layer as a file": {
			layer, func(s *compose.Store, src source) error {
				return s.AddPackedFile("pinbox/a", 0o644, digest.FromString("file"), src, src.Size())
			},
			"file pinbox/a: ",
		},
		"damaged file": {
			file.Bytes()[1:], func(s *compose.Store, src source) error {
				return s.AddPackedFile("pinbox/a", 0o644, digest.FromString("file"), src, src.Size())
			}, "file pinbox/a: ",
		},
		"file as a layer": {
			file.Bytes(), func(s *compose.Store, src source) error {
				_, err := s.AddLayer(compose.Layer{Digest: "sha256:0", DiffID: "sha256:0"}, src, src.Size())
				return err
			}, "layer sha256:0: ",
		},
		"damaged layer": {
			layer[1:], func(s *compose.Store, src source) error {
				_, err := s.AddLayer(compose.Layer{Digest: "sha256:0", DiffID: "sha256:0"}, src, src.Size())
				return err
			}, "layer sha256:0: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkDamaged(t, compressor, test.pack, test.add, test.want)
		})
	}
}

// An entry of a cache that was copied over another one is a pack of another layer or file.
func TestPacksOfAnotherLayer(t *testing.T) {
	compressor := newCompressor(t)
	stream := tarStream(t, sample.File("a", "x"))
	of := blobOf(stream, stream)
	of.Digest = of.DiffID
	var layer, file bytes.Buffer
	if err := errors.Join(
		compose.PackLayer(t.Context(), compressor, of, &layer, t.TempDir()),
		compose.PackFile(compressor, strings.NewReader("file"), digest.FromString("file"), &file),
	); err != nil {
		t.Fatal(err)
	}
	addLayer := func(l compose.Layer) func(*compose.Store, source) error {
		return func(s *compose.Store, src source) error {
			_, err := s.AddLayer(l, src, src.Size())
			return err
		}
	}
	for name, test := range map[string]struct {
		pack []byte
		add  func(*compose.Store, source) error
		want string
	}{
		"layer": {
			layer.Bytes(), addLayer(compose.Layer{Digest: of.Digest, DiffID: "sha256:0"}), "layer " + of.Digest.String() + ": ",
		},
		"blob": {layer.Bytes(), addLayer(compose.Layer{Digest: "sha256:0", DiffID: of.DiffID}), "layer sha256:0: "},
		"file": {
			file.Bytes(), func(s *compose.Store, src source) error {
				return s.AddPackedFile("pinbox/a", 0o644, digest.FromString("another"), src, src.Size())
			}, "file pinbox/a: ",
		},
	} {
		t.Run(name, func(t *testing.T) { checkDamaged(t, compressor, test.pack, test.add, test.want) })
	}
}

// checkDamaged adds a pack to a store, and wants the error by which a build removes it from the cache.
func checkDamaged(
	t *testing.T, compressor *squashfs.Compressor, pack []byte, add func(*compose.Store, source) error, want string,
) {
	t.Helper()
	out, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, out, compressor)
	defer s.Abort()
	err = add(s, source{bytes.NewReader(pack)})
	var damage *squashfs.Damage
	if !errors.As(err, &damage) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %v that begins with %q", err, squashfs.ErrDamaged, want)
	}
}

func tarStream(t *testing.T, entries ...sample.Entry) []byte {
	t.Helper()
	stream, err := sample.Tar(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// layerOf describes an uncompressed layer.
func layerOf(parent string, stream []byte) compose.Layer {
	id := digest.FromBytes(stream)
	return compose.Layer{Parent: parent, Digest: id, Size: int64(len(stream)), DiffID: id}
}

func addStream(
	t *testing.T, s *compose.Store, c *squashfs.Compressor, l compose.Layer, stream []byte,
) (compose.LayerInfo, error) {
	t.Helper()
	pack, err := packLayer(t, c, stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.AddLayer(l, source{bytes.NewReader(pack)}, int64(len(pack)))
}

// rootEntry is the entry of a layer for its root.
func rootEntry(mode int64, uid, gid int) sample.Entry {
	return sample.Entry{Header: tar.Header{Name: "./", Mode: mode, Uid: uid, Gid: gid}}
}

// What the store writes of a layer: the records, the chain and the link.
func TestRecordsOfLayers(t *testing.T) {
	bottom := tarStream(t, rootEntry(0o750, 5, 6), sample.File("a", "x"), sample.Hardlink("b", "a"))
	top := tarStream(t, sample.Entry{Header: tar.Header{Name: "c", Uid: 9, Gid: 8}}, sample.Dir("d"))
	bottomID, topID := digest.FromBytes(bottom), digest.FromBytes(top)
	below, above := bottomID.Encoded(), layout.LayerID(bottomID.Encoded(), topID)
	store := composed(t, func(s *compose.Store, c *squashfs.Compressor) {
		l := layerOf("", bottom)
		want := compose.LayerInfo{ID: below, Size: int64(len(bottom)), Inodes: 2, RootAttributes: "0750:5:6"}
		for range 2 { // it is there the second time
			if got, err := addStream(t, s, c, l, bottom); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		}
		if got, ok := s.Lookup(l); !ok || got != want {
			t.Errorf("the store has %+v, %v, want %+v", got, ok, want)
		}
		l = compose.Layer{Parent: below, Digest: "sha256:c", Size: 77, MediaType: "tar+zstd", DiffID: topID}
		if _, ok := s.Lookup(l); ok {
			t.Error("the store has a layer that was not added")
		}
		want = compose.LayerInfo{ID: above, Size: int64(len(top)), Inodes: 3, RootAttributes: "0750:5:6"}
		if got, err := addStream(t, s, c, l, top); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
	content, err := store.ReadFile(layout.LayersFile)
	if err != nil {
		t.Fatal(err)
	}
	var records []layout.Layer
	if err := json.Unmarshal(content, &records); err != nil {
		t.Fatal(err)
	}
	created := time.Unix(1000, 0).UTC()
	want := []layout.Layer{
		{
			ID: below, Created: created, CompressedDigest: bottomID, CompressedSize: int64(len(bottom)),
			UncompressedDigest: bottomID, UncompressedSize: int64(len(bottom)), UIDs: []uint32{0, 5}, GIDs: []uint32{0, 6},
		},
		{
			ID: above, Parent: below, Created: created, CompressedDigest: "sha256:c", CompressedSize: 77,
			UncompressedDigest: topID, UncompressedSize: int64(len(top)), Compression: 4,
			UIDs: []uint32{0, 9}, GIDs: []uint32{0, 8},
		},
	}
	if diff := cmp.Diff(want, records); diff != "" {
		t.Errorf("layers.json (-want +got):\n%s", diff)
	}
	checkChain(t, store, below, above)
}

// checkChain compares the files by which a layer and the one below it are mounted.
func checkChain(t *testing.T, store *squashfs.Reader, below, above string) {
	t.Helper()
	for name, want := range map[string]string{
		below + "/link":  layout.LinkName(below),
		above + "/link":  layout.LinkName(above),
		above + "/lower": "l/" + layout.LinkName(below), above + "/lower-layers": below,
	} {
		if got, err := store.ReadFile("overlay/" + name); string(got) != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"/lower", "/lower-layers"} {
		if _, err := store.ReadFile("overlay/" + below + name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of the bottom layer: got %v, want %v", name, err, fs.ErrNotExist)
		}
	}
	for _, id := range []string{below, above} {
		if got, err := store.ReadLink("overlay/l/" + layout.LinkName(id)); got != "../"+id+"/diff" || err != nil {
			t.Errorf("link of layer %s: got %q, %v", id, got, err)
		}
	}
}

// containers/storage numbers compressions; registries name them.
func TestCompressionOfALayer(t *testing.T) {
	stream, zipped := tarStream(t, sample.File("a", "x")), digest.FromString("zipped")
	for name, test := range map[string]struct {
		mediaType string
		digest    digest.Digest
		want      int
	}{
		"OCI gzip":         {"application/vnd.oci.image.layer.v1.tar+gzip", zipped, 2},
		"Docker gzip":      {"application/vnd.docker.image.rootfs.diff.tar.gzip", zipped, 2},
		"without a type":   {"", zipped, 2},
		"OCI zstd":         {"application/vnd.oci.image.layer.v1.tar+zstd", zipped, 4},
		"uncompressed":     {"application/vnd.oci.image.layer.v1.tar", digest.FromBytes(stream), 0},
		"zstd that is not": {"application/vnd.oci.image.layer.v1.tar+zstd", digest.FromBytes(stream), 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := composed(t, func(s *compose.Store, c *squashfs.Compressor) {
				l := layerOf("", stream)
				l.MediaType, l.Digest = test.mediaType, test.digest
				if _, err := addStream(t, s, c, l, stream); err != nil {
					t.Fatal(err)
				}
			})
			var got []int
			err := layout.Open(store).Layers(func(l layout.Layer) error {
				got = append(got, l.Compression)
				return nil
			})
			if diff := cmp.Diff([]int{test.want}, got); diff != "" || err != nil {
				t.Errorf("compression (%v, -want +got):\n%s", err, diff)
			}
		})
	}
}

// A layer over one in another store has its chain and its root.
func TestLayersOverABase(t *testing.T) {
	first, second := layerOf("", []byte("first")), layerOf("", []byte("second"))
	second.Parent = layout.LayerID("", first.DiffID)
	baseID := layout.LayerID(second.Parent, second.DiffID)
	stream := tarStream(t, sample.File("a/b", "x"))
	want := compose.LayerInfo{
		ID: layout.LayerID(baseID, digest.FromBytes(stream)), Size: int64(len(stream)), Inodes: 3,
		RootAttributes: "2711:3:4",
	}
	store := composed(t, func(s *compose.Store, c *squashfs.Compressor) {
		about := compose.LayerInfo{Size: 5, Inodes: 6, RootAttributes: "2711:3:4"}
		if err := errors.Join(s.AddBaseLayer(first, compose.LayerInfo{}), s.AddBaseLayer(second, about)); err != nil {
			t.Fatal(err)
		}
		about.ID = baseID
		if got, ok := s.Lookup(second); !ok || got != about {
			t.Errorf("the store has %+v, %v, want %+v", got, ok, about)
		}
		if got, err := s.AddLayer(second, nil, 0); got != about || err != nil {
			t.Errorf("added again: got %+v, %v, want %+v", got, err, about)
		}
		if got, err := addStream(t, s, c, layerOf(baseID, stream), stream); got != want || err != nil {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
	lower, err := store.ReadFile("overlay/" + want.ID + "/lower")
	chain := "l/" + layout.LinkName(baseID) + ":l/" + layout.LinkName(second.Parent)
	if string(lower) != chain || err != nil {
		t.Errorf("lower: got %q, %v, want %q", lower, err, chain)
	}
	ids, err := store.ReadFile("overlay/" + want.ID + "/lower-layers")
	if want := baseID + ":" + second.Parent; string(ids) != want || err != nil {
		t.Errorf("lower-layers: got %q, %v, want %q", ids, err, want)
	}
	if ids := layerIDs(t, store); len(ids) != 1 || ids[0] != want.ID {
		t.Errorf("layers.json: got %q, want %q alone", ids, want.ID)
	}
	fi, err := store.Stat("overlay/" + want.ID + "/diff/a")
	if err != nil || fi.Mode() != fs.ModeDir|fs.ModeSetgid|0o755 {
		t.Errorf("folder in the layer: got %v, %v, want the setgid bit of the root", fi.Mode(), err)
	}
}

func layerIDs(t *testing.T, store *squashfs.Reader) (ids []string) {
	t.Helper()
	err := layout.Open(store).Layers(func(l layout.Layer) error {
		ids = append(ids, l.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// Of a base whose root is not known a layer can stand on which inherits nothing of it.
func TestLayersOverAnUnknownRoot(t *testing.T) {
	base := layerOf("", []byte("base"))
	for name, test := range map[string]struct {
		entries []sample.Entry
		want    error
	}{
		"root with an entry":    {[]sample.Entry{rootEntry(0o755, 0, 0), sample.File("a/b", "x")}, nil},
		"root without an entry": {[]sample.Entry{sample.File("a", "x")}, compose.ErrUnknownRootAttributes},
		"folder before the root": {
			[]sample.Entry{sample.File("a/b/c", "x"), rootEntry(0o755, 0, 0)}, compose.ErrUnknownRootAttributes,
		},
		"folder below one with an entry": {
			[]sample.Entry{sample.File("a/b/c", "x"), rootEntry(0o755, 0, 0), sample.Dir("a")}, compose.ErrUnknownRootAttributes,
		},
		"folders and root with entries": {
			[]sample.Entry{sample.File("a/b", "x"), rootEntry(0o755, 0, 0), sample.Dir("a")}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := squashfs.NewWriter(squashfs.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := newCompressor(t)
			s := begin(t, out, c)
			defer s.Abort()
			if err := s.AddBaseLayer(base, compose.LayerInfo{}); err != nil {
				t.Fatal(err)
			}
			stream := tarStream(t, test.entries...)
			l := layerOf(base.DiffID.Encoded(), stream)
			if _, err := addStream(t, s, c, l, stream); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestRootsOfABase(t *testing.T) {
	out, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, out, newCompressor(t))
	defer s.Abort()
	for text, ok := range map[string]bool{
		"": true, "0755:0:0": true, "0000:0:0": true, "7777:4294967295:1": true, "755:0:0": false, "0755:0": false,
		"10000:0:0": false, "0755:-1:0": false, "0755:0:4294967296": false, "0788:0:0": false, "0755:0:0 ": false, "x": false,
	} {
		err := s.AddBaseLayer(layerOf("", []byte(text)), compose.LayerInfo{RootAttributes: text})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("root %q: got %v, want it accepted: %v", text, err, ok)
		}
	}
}

func TestLayersWithoutTheirParent(t *testing.T) {
	out, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, out, newCompressor(t))
	defer s.Abort()
	l := layerOf("absent", []byte("x"))
	if err := s.AddBaseLayer(l, compose.LayerInfo{}); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("base: got %v, want an error about its parent", err)
	}
	if _, err := s.AddLayer(l, nil, 0); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("layer: got %v, want an error about its parent", err)
	}
}

func TestStoreNeedsItsFolder(t *testing.T) {
	out, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Abort()
	absent := filepath.Join(t.TempDir(), "absent")
	if _, err := compose.NewStore(out, newCompressor(t), time.Unix(0, 0), absent); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}

// An image may name a DiffID of zeros, or a layer of that ID as the parent. A bug was to take it for what is below the
// lowest layer: the layer was left out, and each node refused the store.
func TestDiffIDOfZeros(t *testing.T) {
	compressor := newCompressor(t)
	out, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	store := begin(t, out, compressor)
	defer store.Abort()
	zeros := strings.Repeat("0", 64)
	if _, found := store.Lookup(compose.Layer{DiffID: digest.NewDigestFromEncoded(digest.SHA256, zeros)}); found {
		t.Error("the store has a layer of zeros before any was added")
	}
	if err := store.AddBaseLayer(compose.Layer{Parent: zeros, DiffID: digest.FromString("x")}, compose.LayerInfo{}); err == nil {
		t.Error("a layer was added on one of zeros, which nobody has added")
	}
}
