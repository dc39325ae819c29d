package squashfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// A file that cannot be made is an error, and not only more memory: on a file system without O_TMPFILE it may have been
// left behind with a name.
func TestFileOfRecordsCannotBeMade(t *testing.T) {
	r := records{tmp: filepath.Join(t.TempDir(), "missing")}
	for range heldChunks + 2 {
		r.add(make([]byte, maxRecord))
		r.add(make([]byte, maxRecord))
	}
	if !errors.Is(r.err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", r.err, fs.ErrNotExist)
	}
}
