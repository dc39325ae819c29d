package cache_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
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

func key(name string) cache.Key {
	return cache.Key{Digest: digest.FromString(name), Blob: digest.FromString(name + ".gz"), Encoding: "zstd-131072-v1"}
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

func TestWhatIsPutIsThereAgain(t *testing.T) {
	c, dir := open(t)
	put(t, c, key("a"), "text")
	again, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, ok := again.Get(key("a"))
	if !ok || read(t, f) != "text" {
		t.Error("it is not there")
	}
	for _, k := range []cache.Key{
		key("b"), {Digest: digest.FromString("a"), Encoding: "zstd-131072-v1"}, {
			Digest: digest.FromString("a"), Blob: digest.FromString("b.gz"), Encoding: "zstd-131072-v1",
		},
	} {
		if _, ok := again.Get(k); ok {
			t.Errorf("%v is there", k)
		}
	}
	if err := again.Remove(key("a")); err != nil || read(t, f) != "text" {
		t.Errorf("whoever opened it reads no more: %v", err)
	}
	if err := again.Remove(key("a")); err != nil {
		t.Errorf("removed by two: %v", err)
	}
}

// The zero value works, and leaves nothing anywhere.
func TestNothingIsKept(t *testing.T) {
	var c cache.Cache
	tmp := t.TempDir()
	f, err := c.Put(key("a"), tmp, content("text"))
	if err != nil || read(t, f) != "text" {
		t.Fatal(err)
	}
	if _, ok := c.Get(key("a")); ok {
		t.Error("it was kept")
	}
	if files, err := os.ReadDir(tmp); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
	if removed, err := c.Prune(0); err != nil || len(removed) > 0 {
		t.Errorf("%v, %v", removed, err)
	}
}

// Nothing that is not whole gets a name, and a second writer does not wait.
func TestHalfAnEntryIsNone(t *testing.T) {
	c, dir := open(t)
	broken := errors.New("the network is gone")
	_, err := c.Put(key("a"), t.TempDir(), func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		if _, ok := c.Get(key("a")); ok {
			t.Error("half of it is there")
		}
		put(t, c, key("a"), "whole, by another")
		if removed, err := c.Prune(1 << 20); err != nil || len(removed) > 0 {
			t.Errorf("%v, %v", removed, err)
		}
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "layers/*/*")); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestPruneRemovesWhatWasUsedLeast(t *testing.T) {
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
		t.Errorf("what fits exactly stays: got %v removed, %v", removed, err)
	}
	if removed, err := c.Prune(250); err != nil || len(removed) != 2 || removed[0].Key != key("b") ||
		removed[1].Key != key("c") {
		t.Errorf("removed %v, %v", removed, err)
	}
	if entries, err := c.Entries(); err != nil || len(entries) != 2 || entries[0].Key != key("d") ||
		entries[1].Key != key("a") || entries[1].Size != 100 {
		t.Errorf("%v, %v", entries, err)
	}
	if _, err := os.Stat(abandoned); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed process left is there: %v", err)
	}
}

func TestVerifyRemovesWhatIsDamaged(t *testing.T) {
	c, dir := open(t)
	compressor, err := squashfs.NewCompressor(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	for _, name := range []string{"whole", "damaged"} {
		f, err := c.Put(key(name), t.TempDir(), func(w io.Writer) error {
			p := compressor.NewPacker(w)
			defer p.Abort()
			root := squashfs.NewDir(0o755, 0, 0, 1)
			body, err := p.Content(strings.NewReader(strings.Repeat(name, 100)))
			root.Set("file", &squashfs.Inode{Mode: 0o100644, Content: body})
			return errors.Join(err, p.Close(root, nil))
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	put(t, c, key("rubbish"), "rubbish")
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
	if err != nil || len(damaged) != 2 || seen == 0 {
		t.Errorf("%v, %v, %d bytes", damaged, err, seen)
	}
	if entries, err := c.Entries(); err != nil || len(entries) != 1 || entries[0].Key != key("whole") {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestPartialsBelongToOneProcess(t *testing.T) {
	c, dir := open(t)
	blob := digest.FromString("blob")
	p, err := c.Partial(blob)
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	if _, err := p.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	if other, err := c.Partial(blob); err != nil || other != nil {
		t.Errorf("two have it: %v, %v", other, err)
	}
	files := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "layers/*/*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if _, err := c.Prune(0); err != nil || len(files()) != 1 {
		t.Errorf("what is being fetched was pruned: %v, %v", files(), err)
	}
	if err := p.End(true); err != nil || len(files()) != 1 {
		t.Errorf("%v, %v", files(), err)
	}
	p, err = c.Partial(blob)
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	if size, err := p.Size(); err != nil || size != 4 {
		t.Errorf("%d bytes, %v", size, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := p.End(false); err != nil {
		t.Errorf("somebody has removed the folder: %v", err)
	}
}

func TestPartialsGiveWay(t *testing.T) {
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
		t.Errorf("%v, %v", names, err)
	}
}
