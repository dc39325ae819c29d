package base_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/squashfs"
)

const (
	platform   = "linux/amd64"
	ownerRoot  = "0755:0:0"
	storeBytes = "the store"
)

// layer returns a layer of which everything is known.
func layer(name string) *pinset.LockedLayer {
	return &pinset.LockedLayer{
		Digest: digest.FromString(name + ".gz"), DiffID: digest.FromString(name), Size: 10, UnpackedSize: 30, Inodes: 3,
		RootAttributes: ownerRoot, MediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
	}
}

// image returns an image of layers with these names, the lowest first.
func image(name string, layers ...string) pinset.LockedImage {
	d := digest.FromString(name)
	img := pinset.LockedImage{Pin: "quay.example.com/" + name + "@" + d.String(), Manifest: d, Config: d}
	for _, l := range layers {
		img.Layers = append(img.Layers, layer(l))
	}
	return img
}

// id returns the ID of the uppermost of the layers.
func id(layers ...string) (id string) {
	for _, l := range layers {
		id = layout.LayerID(id, digest.FromString(l))
	}
	return id
}

func lock(images ...pinset.LockedImage) pinset.Lock {
	return pinset.Lock{Version: pinset.LockVersion, Platform: platform, Images: images}
}

func encode(t *testing.T, l pinset.Lock) string {
	t.Helper()
	var b bytes.Buffer
	if err := l.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// write writes files into a new folder.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// folder writes an appliance's folder with sums of all files.
func folder(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	files = maps.Clone(files)
	files[layout.SumsFile] = sums(files)
	return write(t, files)
}

func sums(files map[string]string) (text string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text += digest.FromString(files[name]).Encoded() + "  " + name + "\n"
	}
	return text
}

// medium writes an ISO with files in the folder of pinbox.
func medium(t *testing.T, files map[string]string) (name string) {
	t.Helper()
	var additions []iso.Addition
	for name, content := range files {
		r := strings.NewReader(content)
		additions = append(additions, iso.Addition{Name: name, Size: r.Size(), Content: r})
	}
	name = filepath.Join(t.TempDir(), "medium.iso")
	if err := iso.Create(t.Context(), name, "PINBOX", 0o644, time.Unix(315_532_800, 0), additions, nil); err != nil {
		t.Fatal(err)
	}
	return name
}

// A base is its lock, and the digests of the lock and of the store's file as far as there are sums of them.
func TestRead(t *testing.T) {
	locked := lock(image("a", "bottom", "a"))
	text := encode(t, locked)
	whole := func(store string) map[string]string {
		return map[string]string{store: storeBytes, layout.LockFile: text}
	}
	onMedium := map[string]string{layout.MediumStore: storeBytes, layout.MediumLock: text}
	onMedium[layout.MediumSums] = sums(onMedium)
	withStore := pinset.Base{Store: digest.FromString(storeBytes), Lock: digest.FromString(text)}
	for name, c := range map[string]struct {
		from string
		want pinset.Base
	}{
		"folder with a squashfs": {folder(t, whole(layout.StoreFile)), withStore},
		"folder of a delta":      {folder(t, whole(layout.DeltaStoreFile)), withStore},
		"ISO":                    {medium(t, onMedium), withStore},
		"lock": {
			filepath.Join(write(t, map[string]string{"any.json": " \n" + text}), "any.json"),
			pinset.Base{Lock: digest.FromString(" \n" + text)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := base.Read([]string{c.from}, platform)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]base.Base{{Base: c.want, Locked: locked}}, got); diff != "" {
				t.Errorf("base (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadKeepsTheOrder(t *testing.T) {
	var names []string
	var want []pinset.Lock
	for _, name := range []string{"c", "a", "b"} {
		l := lock(image(name, "bottom"))
		dir := write(t, map[string]string{layout.LockFile: encode(t, l)})
		names, want = append(names, filepath.Join(dir, layout.LockFile)), append(want, l)
	}
	bases, err := base.Read(names, platform)
	if err != nil {
		t.Fatal(err)
	}
	var got []pinset.Lock
	for _, b := range bases {
		got = append(got, b.Locked)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("locks (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	text := encode(t, lock(image("a", "bottom")))
	other := lock(image("a", "bottom"))
	other.Platform = "linux/arm64"
	noDigest := lock(image("a", "bottom"))
	noDigest.Images[0].Layers[0].DiffID = "x"
	file := func(content string) string {
		return filepath.Join(write(t, map[string]string{"file": content}), "file")
	}
	changed := func(files map[string]string) map[string]string {
		files = maps.Clone(files)
		for _, name := range []string{layout.LockFile, layout.MediumLock} {
			if _, ok := files[name]; ok {
				files[name] += "\n"
			}
		}
		return files
	}
	whole := map[string]string{layout.StoreFile: storeBytes, layout.LockFile: text}
	whole[layout.SumsFile] = sums(whole)
	onMedium := map[string]string{layout.MediumStore: storeBytes, layout.MediumLock: text}
	onMedium[layout.MediumSums] = sums(onMedium)
	for name, c := range map[string]struct {
		from string
		want error
		text string // in the message, beside the name
	}{
		"no file":      {"/no/such/folder", os.ErrNotExist, ""},
		"empty folder": {t.TempDir(), release.ErrNotAppliance, ""},
		"folder without a lock": {
			folder(t, map[string]string{layout.StoreFile: storeBytes}), os.ErrNotExist, layout.LockFile,
		},
		"folder with another lock": {write(t, changed(whole)), release.ErrVerify, layout.LockFile},
		"folder with a store of format dir": {
			folder(t, map[string]string{"store/overlay-images/images.json": "[]", layout.LockFile: text}),
			base.ErrUnsuitable, "squashfs",
		},
		"ISO without pinbox's files": {
			medium(t, map[string]string{"other": ""}), release.ErrNotAppliance, "",
		},
		"ISO with another lock": {medium(t, changed(onMedium)), release.ErrVerify, "want " + digest.FromString(text).Encoded()},
		"store":                 {file("hsqs" + strings.Repeat("\x00", 100)), release.ErrNotAppliance, "and not a lock"},
		"empty file":            {file(""), release.ErrNotAppliance, "and not a lock"},
		"other JSON":            {file("{}"), pinset.ErrBadLock, ""},
		"lock of a bad digest":  {file(encode(t, noDigest)), pinset.ErrBadLock, "diffID"},
		"other platform":        {file(encode(t, other)), base.ErrUnsuitable, "for linux/amd64: it is for linux/arm64"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := base.Read([]string{file(text), c.from}, platform)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.from) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q and %q", err, c.want, c.from, c.text)
			}
			if got != nil {
				t.Errorf("got the bases %v with an error, want none", got)
			}
		})
	}
}

// The ID of a layer depends on the layers below it.
func TestChain(t *testing.T) {
	want := []base.Layer{
		{LockedLayer: layer("bottom"), ID: id("bottom")},
		{LockedLayer: layer("middle"), ID: id("bottom", "middle"), Parent: id("bottom")},
		{LockedLayer: layer("top"), ID: id("bottom", "middle", "top"), Parent: id("bottom", "middle")},
	}
	if diff := cmp.Diff(want, base.Chain(image("a", "bottom", "middle", "top"))); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
}

func TestLayers(t *testing.T) {
	b := base.Base{Locked: lock(image("a", "bottom", "a"), image("b", "bottom", "b"))}
	want := map[string]compose.LayerInfo{}
	for _, id := range []string{id("bottom"), id("bottom", "a"), id("bottom", "b")} {
		want[id] = compose.LayerInfo{ID: id, Size: 30, Inodes: 3, RootAttributes: ownerRoot}
	}
	if diff := cmp.Diff(want, b.Layers()); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
}

// A delta needs those layers of its images that every base has, each once, and has all others.
func TestNewCommon(t *testing.T) {
	one := base.Base{
		Base:   pinset.Base{Store: "sha256:2", Lock: "sha256:1"},
		Locked: lock(image("a", "bottom", "a"), image("b", "bottom", "b"), image("unused", "unused")),
	}
	two := base.Base{
		Base:   pinset.Base{Store: "sha256:1", Lock: "sha256:2"},
		Locked: lock(image("a", "bottom", "a"), image("c", "c", "b"), image("unused", "unused")),
	}
	lockOnly := base.Base{Base: pinset.Base{Lock: "sha256:2"}, Locked: two.Locked}
	images := []pinset.LockedImage{image("a", "bottom", "a"), image("b", "bottom", "b"), image("new", "bottom", "a", "new")}
	for name, c := range map[string]struct {
		bases []base.Base
		want  []pinset.Base
		needs []string
		// missing has the layers of each image that the delta gets.
		missing []string
	}{
		"one base": {
			[]base.Base{one}, []pinset.Base{one.Base}, []string{id("bottom"), id("bottom", "a"), id("bottom", "b")},
			[]string{"", "", "new"},
		},
		"two bases": {
			[]base.Base{one, two}, []pinset.Base{two.Base, one.Base}, []string{id("bottom"), id("bottom", "a")},
			[]string{"", "b", "new"},
		},
		"the same bases in another order, repeated": {
			[]base.Base{two, one, lockOnly, two}, []pinset.Base{lockOnly.Base, two.Base, one.Base},
			[]string{id("bottom"), id("bottom", "a")}, []string{"", "b", "new"},
		},
		"locks alone": {
			[]base.Base{lockOnly, {Base: pinset.Base{Lock: "sha256:1"}, Locked: one.Locked}},
			[]pinset.Base{{Lock: "sha256:1"}, lockOnly.Base}, []string{id("bottom"), id("bottom", "a")}, []string{"", "b", "new"},
		},
		"bases that have nothing in common": {
			[]base.Base{one, {Base: lockOnly.Base, Locked: lock(image("x", "x"))}},
			[]pinset.Base{lockOnly.Base, one.Base}, []string{}, []string{"bottom a", "bottom b", "bottom a new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			common := base.NewCommon(c.bases, images)
			want := pinset.Delta{Version: pinset.DeltaVersion, Bases: c.want, Needs: []pinset.Need{}}
			for _, id := range slices.Sorted(slices.Values(c.needs)) {
				want.Needs = append(want.Needs, pinset.Need{Layer: id, Link: layout.LinkName(id)})
			}
			if diff := cmp.Diff(want, common.Delta); diff != "" {
				t.Errorf("delta (-want +got):\n%s", diff)
			}
			for i, img := range images {
				var want []*pinset.LockedLayer
				for l := range strings.FieldsSeq(c.missing[i]) {
					want = append(want, layer(l))
				}
				if diff := cmp.Diff(want, common.Missing(img)); diff != "" {
					t.Errorf("missing layers of %s (-want +got):\n%s", img.Pin, diff)
				}
			}
		})
	}
}

// addTo adds the layers of images to a new store of a delta.
func addTo(t *testing.T, common *base.Common, images []pinset.LockedImage) (*compose.Store, error) {
	t.Helper()
	var composed *compose.Store
	compressor, err := squashfs.NewCompressor(squashfs.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(compressor.Close)
	s, err := format.Of(format.Squashfs).Open(t.Context(), format.Options{
		Dir: t.TempDir(), Packing: storage.PackOptions{Compressor: compressor}, AddBases: func(s *compose.Store) error {
			composed = s
			return common.AddTo(s, images)
		},
	})
	if err == nil {
		t.Cleanup(func() {
			if err := s.Abort(); err != nil {
				t.Error(err)
			}
		})
	}
	return composed, err
}

// A field that one base does not know is taken from another: a lock that Plan made has no unpacked sizes.
func TestAddTo(t *testing.T) {
	full := layer("bottom")
	none := &pinset.LockedLayer{}
	like := func(size, inodes int64, root string) base.Base {
		l := lock(image("a", "bottom", "a"))
		bottom := l.Images[0].Layers[0]
		bottom.UnpackedSize, bottom.Inodes, bottom.RootAttributes = size, inodes, root
		return base.Base{Locked: l}
	}
	images := []pinset.LockedImage{image("a", "bottom", "a"), image("new", "bottom", "new")}
	for name, c := range map[string]struct {
		bases []base.Base
		want  *pinset.LockedLayer // of which the unpacked fields count
	}{
		"nothing is known": {[]base.Base{like(0, 0, "")}, none},
		"the first base knows all": {
			[]base.Base{like(full.UnpackedSize, full.Inodes, full.RootAttributes), like(0, 0, "")}, full,
		},
		"each base knows a part": {
			[]base.Base{like(full.UnpackedSize, 0, ""), like(0, 0, full.RootAttributes), like(0, full.Inodes, "")}, full,
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := addTo(t, base.NewCommon(c.bases, images), images)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := store.Lookup(compose.Layer{DiffID: full.DiffID})
			want := compose.LayerInfo{
				ID: id("bottom"), Size: c.want.UnpackedSize, Inodes: c.want.Inodes, RootAttributes: c.want.RootAttributes,
			}
			if !ok || got != want {
				t.Errorf("got %+v, %t for the lowest layer, want %+v", got, ok, want)
			}
			if _, ok := store.Lookup(compose.Layer{Parent: id("bottom"), DiffID: layer("a").DiffID}); !ok {
				t.Error("got no layer a in the store, want it from the bases")
			}
			if _, ok := store.Lookup(compose.Layer{Parent: id("bottom"), DiffID: layer("new").DiffID}); ok {
				t.Error("got the layer new in the store, want it to be missing: no base has it")
			}
		})
	}
}

func TestAddToRefusesRootAttributes(t *testing.T) {
	l := lock(image("a", "bottom", "a"))
	l.Images[0].Layers[0].RootAttributes = "99:0"
	_, err := addTo(t, base.NewCommon([]base.Base{{Locked: l}}, l.Images), l.Images)
	if !errors.Is(err, pinset.ErrBadLock) || !strings.Contains(err.Error(), l.Images[0].Pin) ||
		!strings.Contains(err.Error(), ownerRoot) {
		t.Errorf("got %v, want %v with %s and the form %s", err, pinset.ErrBadLock, l.Images[0].Pin, ownerRoot)
	}
}
