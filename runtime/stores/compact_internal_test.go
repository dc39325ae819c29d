package stores

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/opencontainers/go-digest"
)

// A file that does not exist gets no name, and is not dropped from the page cache.
func TestMissingCompactedStore(t *testing.T) {
	dir := folder(t.TempDir())
	if err := dir.adopt(dir.compacted(), Store{ID: digest.FromString("x")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("adopt: got %v, want %v", err, fs.ErrNotExist)
	}
	if err := evict(dir.compacted()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("evict: got %v, want %v", err, fs.ErrNotExist)
	}
}
