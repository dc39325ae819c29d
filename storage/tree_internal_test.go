package storage

import (
	"errors"
	"io"
	"testing"
)

// unread is a large file that nobody may read.
type unread struct{ t *testing.T }

func (unread) Has(string) bool { return true }

func (u unread) Open(string) (io.ReadCloser, int64, error) { return io.NopCloser(u), maxFile + 1, nil }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("got a read, want none")
	return 0, io.EOF
}

// A file that is larger than its limit is refused by its size. Bugs were to read it up to the limit first, for 150 MiB
// of memory.
func TestLargeFileIsNotRead(t *testing.T) {
	if _, err := readFile(unread{t}, "link"); !errors.Is(err, ErrLocal) {
		t.Errorf("got %v, want %v", err, ErrLocal)
	}
}
