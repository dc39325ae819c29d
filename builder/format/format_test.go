package format_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// The properties of formats, which other packages rely on.
var descriptions = []format.Description{
	{Name: "squashfs", File: "store.squashfs", Delta: "delta.squashfs", Mounted: true, UsesCache: true},
	{
		Name: "dir", File: "store",
		UnsuitableBase: "the short names of layers in a store of format dir are random, and a delta must know them; " +
			"format squashfs has predictable names",
	},
}

func TestTable(t *testing.T) {
	var got []format.Description
	for _, name := range format.Names() {
		f := format.Of(format.Name(name))
		if f == nil {
			t.Fatalf("got no format %s, want one", name)
		}
		about := f.Describe()
		if limited := about.Name == format.Dir; (about.Writable != nil) != limited || (about.Limitation != nil) != limited {
			t.Errorf("got %+v, want conditions on the process for dir alone", about)
		}
		about.Writable, about.Limitation = nil, nil
		got = append(got, about)
	}
	if diff := cmp.Diff(descriptions, got); diff != "" {
		t.Errorf("formats (-want +got):\n%s", diff)
	}
	if got, want := format.NamesWith(func(d format.Description) bool { return d.UsesCache }), "squashfs"; got != want {
		t.Errorf("got the formats %q that use the cache, want %q", got, want)
	}
	if f := format.Of(""); f == nil || f.Describe().Name != format.Squashfs {
		t.Errorf("got the default %v, want squashfs", f)
	}
	if f := format.Of(format.ThinName); f != nil {
		t.Errorf("got %v, want none: no appliance is thin", f)
	}
	if got, want := format.NamesWith(func(d format.Description) bool { return d.Delta != "" }), "squashfs"; got != want {
		t.Errorf("got the formats %q of deltas, want %q", got, want)
	}
	if f, name := format.Find(layout.Sums{"delta.thin": "00"}); f == nil || name != "delta.thin" {
		t.Errorf("got %v and %q for a thin delta", f, name)
	}
	if f := format.Of("zip"); f != nil {
		t.Errorf("got %v for the name zip, want none", f)
	}
}

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		files  []string
		format format.Name
		store  string
	}{
		"squashfs":                    {[]string{"store.squashfs"}, format.Squashfs, "store.squashfs"},
		"delta":                       {[]string{"delta.squashfs"}, format.Squashfs, "delta.squashfs"},
		"dir":                         {[]string{"store/overlay-images/images.json"}, format.Dir, "store"},
		"no store":                    {nil, "", ""},
		"folder that is not a store":  {[]string{"store/README", "manifests/store.squashfs"}, "", ""},
		"marker that is in no folder": {[]string{"overlay-images/images.json"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sums := layout.Sums{layout.LockFile: "0"}
			for _, file := range c.files {
				sums[file] = "1"
			}
			f, store := format.Find(sums)
			var got format.Name
			if f != nil {
				got = f.Describe().Name
			}
			if got != c.format || store != c.store {
				t.Errorf("got %q and the store %q, want %q and %q", got, store, c.format, c.store)
			}
		})
	}
}

// What a store needs before it is written, without and with a cache.
func TestNeeds(t *testing.T) {
	sizes := format.Sizes{Packed: 100, Cached: 40, Largest: 30, Unpacked: 300, Own: 9}
	cached, all := sizes, sizes
	cached.HasCache, all.HasCache, all.Cached = true, true, 100
	for name, c := range map[string]struct {
		format format.Name
		sizes  format.Sizes
		want   format.Needs
	}{
		"squashfs":                  {format.Squashfs, sizes, format.Needs{Store: 103, Temporary: 33}},
		"squashfs, cached":          {format.Squashfs, cached, format.Needs{Store: 103, Temporary: 3, Cache: 60}},
		"squashfs, own files alone": {format.Squashfs, format.Sizes{Own: 9}, format.Needs{}},
		"squashfs, all kept":        {format.Squashfs, all, format.Needs{}},
		"dir":                       {format.Dir, sizes, format.Needs{Store: 309}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := format.Of(c.format).Needs(c.sizes); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// write writes a squashfs without images, with one file of pinbox's own.
func write(t *testing.T, dir string, checkSize func(int64) error) (artifact.Store, error) {
	t.Helper()
	compressor, err := squashfs.NewCompressor(squashfs.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(compressor.Close)
	s, err := format.Of(format.Squashfs).Open(t.Context(), format.Options{
		Dir: dir, Name: layout.StoreFile, ModTime: time.Unix(1_000_000_000, 0), CheckSize: checkSize,
		Packing: storage.PackOptions{Compressor: compressor},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Abort(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Add(format.File{Name: "pinbox/note", Perm: 0o644, Content: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	return s.Close()
}

// A store is described as it is written, is complete, and leaves no other file.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	var checked int64
	store, err := write(t, dir, func(size int64) error { checked = size; return nil })
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, layout.StoreFile))
	if err != nil {
		t.Fatal(err)
	}
	want := artifact.Store{
		Name: layout.StoreFile, Size: int64(len(content)), Sum: digest.FromBytes(content).Encoded(),
	}
	verified, err := format.Of(format.Squashfs).Verify(t.Context(), filepath.Join(dir, layout.StoreFile),
		progress.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	want.Tree = verified.Tree // storage/verity's own tests compare trees with veritysetup's
	if store != want {
		t.Errorf("got the store %+v, want %+v", store, want)
	}
	if checked != want.Size {
		t.Errorf("got a check of %d bytes, want %d", checked, want.Size)
	}
	if verified.Size != want.Size {
		t.Errorf("got %d bytes from Verify, want %d", verified.Size, want.Size)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got the files %v and %v, want the store alone", entries, err)
	}
}

// The size of a squashfs is known before its first byte is written.
func TestWriteOfTooLargeAStore(t *testing.T) {
	dir, full := t.TempDir(), errors.New("disk full")
	if _, err := write(t, dir, func(int64) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("got the files %v and %v, want none", entries, err)
	}
}

// used is the size of a squashfs in its superblock, in bytes.
func used(superblock []byte) uint64 { return binary.LittleEndian.Uint64(superblock[40:]) }

// Files may be cut off so that their sums match, if the sums were made later.
func TestVerifyFindsIncompleteFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(content []byte) []byte
		want   string
	}{
		"cut off": {func(b []byte) []byte { return b[:len(b)-1] }, "store.squashfs: there is no hash tree"},
		"without its hash tree": {
			func(b []byte) []byte { return b[:used(b)] }, "store.squashfs: there is no hash tree",
		},
		"another magic": {
			func(b []byte) []byte { return append([]byte("x"), b[1:]...) },
			"store.squashfs: the hash tree is not that of the data",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := write(t, dir, func(int64) error { return nil }); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, layout.StoreFile)
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, c.change(content), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err = format.Of(format.Squashfs).Verify(t.Context(), file, progress.Hooks{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The sums of a folder have no symbolic links, by which overlay finds layers.
func TestVerifyFindsMissingLinks(t *testing.T) {
	for name, c := range map[string]struct {
		target string // of the link; "" for no link
		want   string
	}{
		"link":               {"../layer/diff", ""},
		"no link":            {"", "store/overlay/l/SHORT is not a link to layer layer"},
		"link to another":    {"../other/diff", "store/overlay/l/SHORT is not a link to layer layer"},
		"link to its folder": {"../layer", "store/overlay/l/SHORT is not a link to layer layer"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			links := filepath.Join(dir, "overlay", "l")
			err := errors.Join(os.MkdirAll(filepath.Join(dir, "overlay", "layer"), 0o755), os.Mkdir(links, 0o755),
				os.WriteFile(filepath.Join(dir, "overlay", "layer", "link"), []byte("SHORT\n"), 0o644))
			if c.target != "" {
				err = errors.Join(err, os.Symlink(c.target, filepath.Join(links, "SHORT")))
			}
			if err != nil {
				t.Fatal(err)
			}
			store, err := format.Of(format.Dir).Verify(t.Context(), dir, progress.Hooks{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if store.Size != 6 {
				t.Errorf("got %d bytes, want 6: those of regular files", store.Size)
			}
		})
	}
}
