package cache_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/cache"
)

// Size returns the size of an entry and whether there is one.
func TestSize(t *testing.T) {
	c, _ := open(t)
	put(t, c, key("a"), "content")
	for name, test := range map[string]struct {
		cache cache.Cache
		size  int64
		ok    bool
	}{"a": {c, 7, true}, "b": {c, 0, false}, "zero value": {cache.Cache{}, 0, false}} {
		t.Run(name, func(t *testing.T) {
			if size, ok := test.cache.Size(key(name)); size != test.size || ok != test.ok {
				t.Errorf("got %d bytes, %v, want %d, %v", size, ok, test.size, test.ok)
			}
		})
	}
}

// RemoveFile removes the entry of an open file that Put or Get has returned.
func TestRemoveFile(t *testing.T) {
	c, dir := open(t)
	added, err := c.Put(key("a"), t.TempDir(), content("content"))
	if err != nil {
		t.Fatal(err)
	}
	defer added.Close()
	put(t, c, key("b"), "other")
	found, ok := c.Get(key("b"))
	if !ok {
		t.Fatal("got no entry b")
	}
	defer found.Close()
	for name, f := range map[string]*os.File{"a": added, "b": found} {
		if ok, err := c.RemoveFile(f); !ok || err != nil {
			t.Errorf("remove %s: got %v, %v, want true", name, ok, err)
		}
		if _, err := os.Stat(fileOf(dir, name)); !os.IsNotExist(err) {
			t.Errorf("remove %s: got %v, want no file", name, err)
		}
	}
}

// RemoveFile does not remove a file that is not an entry.
func TestRemoveFileOfNoEntry(t *testing.T) {
	c, dir := open(t)
	unnamed, err := cache.Cache{}.Put(key("a"), t.TempDir(), content("content"))
	if err != nil {
		t.Fatal(err)
	}
	defer unnamed.Close()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	put(t, c, key("a"), "content")
	entry, _ := c.Get(key("a"))
	defer entry.Close()
	for name, test := range map[string]struct {
		cache cache.Cache
		file  *os.File
	}{"unnamed": {c, unnamed}, "not in the folder of entries": {c, file}, "zero value": {cache.Cache{}, entry}} {
		t.Run(name, func(t *testing.T) {
			if ok, err := test.cache.RemoveFile(test.file); ok || err != nil {
				t.Errorf("got %v, %v, want false", ok, err)
			}
		})
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	if _, ok := c.Size(key("a")); !ok {
		t.Error("got no entry a")
	}
}

// Remove of a missing entry is not an error. An entry that cannot be removed is one.
func TestRemove(t *testing.T) {
	c, dir := open(t)
	put(t, c, key("a"), "content")
	for range 2 {
		if err := c.Remove(key("a")); err != nil {
			t.Errorf("got %v, want no error", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(fileOf(dir, "b"), "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(key("b")); err == nil {
		t.Error("got no error for an entry that cannot be removed")
	}
	if removed, err := c.Prune(0); err == nil {
		t.Errorf("prune: got %v and no error for an entry that cannot be removed", removed)
	}
}

// The removal of a cache's folder while it is in use is an error.
func TestRemovedFolder(t *testing.T) {
	c, dir := open(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prune(0); !os.IsNotExist(err) {
		t.Errorf("prune: got %v, want that the folder does not exist", err)
	}
	if _, err := c.Entries(); !os.IsNotExist(err) {
		t.Errorf("entries: got %v, want that the folder does not exist", err)
	}
}

// An empty partial blob is removed.
func TestEmptyPartial(t *testing.T) {
	c, dir := open(t)
	files := func() int {
		entries, err := filepath.Glob(filepath.Join(dir, "layers/*/*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for content, want := range map[string]int{"": 0, "some": 1} {
		p, err := c.Partial(digest.FromString("blob"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.WriteString(content); err != nil {
			t.Fatal(err)
		}
		if err := p.End(true); err != nil || files() != want {
			t.Errorf("%q: got %d files, %v, want %d", content, files(), err, want)
		}
		if err := c.PrunePartials(); err != nil || files() != 0 {
			t.Errorf("after pruning: got %d files, %v, want none", files(), err)
		}
	}
}

// PrunePartials does not remove entries.
func TestPrunePartialsKeepsEntries(t *testing.T) {
	c, _ := open(t)
	put(t, c, key("a"), "content")
	if err := c.PrunePartials(); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Size(key("a")); !ok {
		t.Error("got no entry a")
	}
}
