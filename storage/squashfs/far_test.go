package squashfs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// The contents of a store of more than 200 GB, and the tables behind them, are read by the kernel and by Reader: no
// figure has 32 bits. Most of the file is a hole.
func TestContentsBehind200GB(t *testing.T) {
	const gap = 201 << 30
	packed := pack(t, squashfs.Options{}, allKinds(t))
	compressor := newCompressor(t, squashfs.Options{})
	w, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	squashfs.Skip(w, gap)
	p, err := compressor.OpenPack(source{bytes.NewReader(packed)}, int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	w.AddPack(p)
	img, err := w.Close(p.Root)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "image.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := img.WriteTo(&skipping{file: f, gap: gap}); err != nil {
		t.Fatal(err)
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != img.Size() {
		t.Fatalf("got %v, %v, want %d bytes", fi.Size(), err, img.Size())
	}
	near := open(t, writePacks(t, squashfs.Options{}, packed))
	want, err := squashfs.TreeOf(near, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got, err := squashfs.TreeOf(open(t, f.Name()), 1<<20)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Reader: %v (-near +far):\n%.3000s", err, diff)
	}
	if diff := cmp.Diff(want, fixtures.Tree(t, fixtures.Mount(t, f.Name()))); diff != "" {
		t.Errorf("kernel (-near +far):\n%.3000s", diff)
	}
}

// skipping writes an image with a hole behind its head, which comes first.
type skipping struct {
	file    *os.File
	gap, at int64
}

func (s *skipping) Write(p []byte) (int, error) {
	n, err := s.file.WriteAt(p, s.at)
	if s.at == 0 {
		s.at = s.gap
	}
	s.at += int64(n)
	return n, err
}
