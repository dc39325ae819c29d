package compose

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What was read of a pack is freed, also in small pieces that follow each other; nothing else is.
func TestDiscardedBytesAreFreed(t *testing.T) {
	const mib = 1 << 20
	f, err := os.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content := make([]byte, 2*mib)
	for i := range content {
		content[i] = byte(i%251 + 1)
	}
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	s := &spool{File: f}
	for at := int64(100); at < mib; at += 5000 {
		s.Discard(at, 5000)
	}
	s.Discard(2*mib-200_000, 1000) // too little, and elsewhere
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	if got := stat.Blocks * 512; got > mib+leastFreed+2*blockSize {
		t.Errorf("got %d bytes on the disk, want about %d", got, mib)
	}
	for _, at := range []int64{0, 99, mib + 5000, 2*mib - 200_000, 2*mib - 1} {
		got := make([]byte, 1)
		if _, err := f.ReadAt(got, at); err != nil || got[0] != content[at] {
			t.Errorf("byte %d: got %d, %v, want %d", at, got[0], err, content[at])
		}
	}
}
