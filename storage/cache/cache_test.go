package cache_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/squashfs"
)

func open(t *testing.T) (cache.Cache, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a", "cache")
	c, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
}

// encoding is one that this version reads.
const encoding = "zstd-131072-v" + squashfs.PackVersion

func key(name string) cache.Key {
	return cache.Key{Digest: digest.FromString(name), Blob: digest.FromString(name + ".gz"), Encoding: encoding}
}

func fileOf(dir, name string) string {
	return filepath.Join(dir, "layers", key(name).Encoding, key(name).Digest.Encoded()+"-"+key(name).Blob.Encoded())
}

func content(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func put(t *testing.T, c cache.Cache, k cache.Key, text string) {
	t.Helper()
	f, err := c.Put(k, t.TempDir(), content(text))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := read(t, f); got != text {
		t.Errorf("Put gives %q, want %q", got, text)
	}
}

func read(t *testing.T, f *os.File) string {
	t.Helper()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestPutAndGet(t *testing.T) {
	c, dir := open(t)
	put(t, c, key("a"), "text")
	reopened, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, ok := reopened.Get(key("a"))
	if !ok || read(t, f) != "text" {
		t.Errorf("got entry: %v, want the entry with its content", ok)
	}
	for _, k := range []cache.Key{
		key("b"), {Digest: digest.FromString("a"), Encoding: encoding}, {
			Digest: digest.FromString("a"), Blob: digest.FromString("b.gz"), Encoding: encoding,
		},
	} {
		if _, ok := reopened.Get(k); ok {
			t.Errorf("got an entry for %v, want none", k)
		}
	}
	if err := reopened.Remove(key("a")); err != nil || read(t, f) != "text" {
		t.Errorf("got error %v or other content of the open file, want its content", err)
	}
	if err := reopened.Remove(key("a")); err != nil {
		t.Errorf("a second Remove: got %v, want no error", err)
	}
}

// A blob may be named by any digest, also one that was fetched in part.
func TestKeysOfOtherDigests(t *testing.T) {
	c, dir := open(t)
	for _, a := range []digest.Algorithm{digest.SHA384, digest.SHA512} {
		k := cache.Key{Digest: digest.FromString("a"), Blob: a.FromString("a.gz"), Encoding: encoding}
		put(t, c, k, "text")
		entries, err := c.Entries()
		if err != nil || !slices.ContainsFunc(entries, func(e cache.Entry) bool { return e.Key == k }) {
			t.Errorf("%s: got %v, %v, want %v too", a, entries, err, k)
		}
		part, err := c.Partial(k.Blob)
		if err != nil {
			t.Fatal(err)
		}
		_, err = part.WriteString("a")
		if err := errors.Join(err, part.End(true), c.PrunePartials()); err != nil || c.HasPartial(k.Blob) {
			t.Errorf("%s: got %v, want no part in %s", a, err, dir)
		}
	}
}

// The zero value works, and stores nothing.
func TestZeroValue(t *testing.T) {
	var c cache.Cache
	tmp := t.TempDir()
	f, err := c.Put(key("a"), tmp, content("text"))
	if err != nil || read(t, f) != "text" {
		t.Fatal(err)
	}
	if _, ok := c.Get(key("a")); ok {
		t.Error("got an entry, want none")
	}
	if files, err := os.ReadDir(tmp); err != nil || len(files) > 0 {
		t.Errorf("got files %v, %v, want none", files, err)
	}
	if removed, err := c.Prune(0); err != nil || len(removed) > 0 {
		t.Errorf("prune: got %v, %v, want no entry", removed, err)
	}
}

// An incomplete entry gets no name, and a second writer of the same entry does not wait.
func TestIncompleteEntry(t *testing.T) {
	c, dir := open(t)
	failure := errors.New("connection lost")
	_, err := c.Put(key("a"), t.TempDir(), func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		if _, ok := c.Get(key("a")); ok {
			t.Error("got the incomplete entry, want none")
		}
		put(t, c, key("a"), "complete, by another writer")
		if removed, err := c.Prune(1 << 20); err != nil || len(removed) > 0 {
			t.Errorf("prune: got %v, %v, want no entry", removed, err)
		}
		return errors.Join(err, failure)
	})
	if !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "layers/*/*")); err != nil || len(files) > 0 {
		t.Errorf("got files %v, %v, want none", files, err)
	}
}

func TestPruneRemovesLeastRecentlyUsed(t *testing.T) {
	c, dir := open(t)
	for n, name := range []string{"a", "b", "c", "d"} {
		put(t, c, key(name), strings.Repeat(name, 100))
		used := time.Now().Add(time.Duration(n-10) * time.Hour)
		if err := os.Chtimes(fileOf(dir, name), used, used); err != nil {
			t.Fatal(err)
		}
	}
	abandoned := filepath.Join(dir, "layers", key("a").Encoding, "."+filepath.Base(fileOf(dir, "e"))+".pinbox-partial")
	if err := os.WriteFile(abandoned, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, _ := c.Get(key("a")) // now the newest
	defer f.Close()
	if removed, err := c.Prune(400); err != nil || len(removed) != 0 {
		t.Errorf("a limit equal to the size: got %v removed, %v, want none", removed, err)
	}
	if removed, err := c.Prune(250); err != nil || len(removed) != 2 || removed[0].Key != key("b") ||
		removed[1].Key != key("c") {
		t.Errorf("got %v removed, %v, want b and c", removed, err)
	}
	if entries, err := c.Entries(); err != nil || len(entries) != 2 || entries[0].Key != key("d") ||
		entries[1].Key != key("a") || entries[1].Size != 100 {
		t.Errorf("got %v, %v, want d and a of 100 bytes", entries, err)
	}
	if _, err := os.Stat(abandoned); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the incomplete file of a killed process: got %v, want %v", err, os.ErrNotExist)
	}
}

func TestVerifyRemovesDamagedEntries(t *testing.T) {
	c, dir := open(t)
	compressor, err := squashfs.NewCompressor(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	for _, name := range []string{"intact", "damaged", "of another layer"} {
		note, err := json.Marshal(map[string]digest.Digest{"digest": key(name).Digest, "blob": key(name).Blob})
		if name == "of another layer" {
			note, err = json.Marshal(map[string]digest.Digest{"digest": key("a").Digest, "blob": key(name).Blob})
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Put(key(name), t.TempDir(), func(w io.Writer) error {
			p := compressor.NewPacker(w)
			defer p.Abort()
			root := squashfs.NewDir(0o755, 0, 0, 1)
			body, err := p.Content(strings.NewReader(strings.Repeat(name, 100)))
			root.Set("file", &squashfs.Inode{Mode: 0o100644, Content: body})
			return errors.Join(err, p.Close(root, note))
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	put(t, c, key("text"), "text")
	f, err := os.OpenFile(fileOf(dir, "damaged"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0}, 20); err != nil {
		t.Fatal(err)
	}
	f.Close()
	var seen int64
	damaged, err := c.Verify(t.Context(), func(n int64) { seen += n })
	if err != nil || len(damaged) != 3 || seen == 0 {
		t.Errorf("got %v damaged, %v, after %d bytes, want three entries", damaged, err, seen)
	}
	if entries, err := c.Entries(); err != nil || len(entries) != 1 || entries[0].Key != key("intact") {
		t.Errorf("got %v, %v, want only the intact entry", entries, err)
	}
}

func TestPartialOfOneProcess(t *testing.T) {
	c, dir := open(t)
	blob := digest.FromString("blob")
	p, err := c.Partial(blob)
	if err != nil || p == nil {
		t.Fatalf("got %v, %v, want a partial blob", p, err)
	}
	if _, err := p.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	if other, err := c.Partial(blob); err != nil || other != nil {
		t.Errorf("a second Partial: got %v, %v, want nil", other, err)
	}
	files := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "layers/*/*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if _, err := c.Prune(0); err != nil || len(files()) != 1 {
		t.Errorf("prune: got files %v, %v, want the partial blob in use", files(), err)
	}
	if err := p.End(true); err != nil || len(files()) != 1 {
		t.Errorf("got files %v, %v, want the partial blob", files(), err)
	}
	p, err = c.Partial(blob)
	if err != nil || p == nil {
		t.Fatalf("got %v, %v, want a partial blob", p, err)
	}
	if size, err := p.Size(); err != nil || size != 4 {
		t.Errorf("got %d bytes, %v, want 4", size, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := p.End(false); err != nil {
		t.Errorf("after the removal of the folder: got %v, want no error", err)
	}
}

func TestPrunePartials(t *testing.T) {
	c, dir := open(t)
	put(t, c, key("a"), "text")
	p, err := c.Partial(digest.FromString("blob"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.End(true), c.PrunePartials()); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "layers/*/*")); err != nil || len(names) != 1 {
		t.Errorf("got files %v, %v, want only the entry", names, err)
	}
}
