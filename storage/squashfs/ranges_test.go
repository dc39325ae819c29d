package squashfs_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Parts of packs of 512 KiB and more have the same place in the blocks of a disk as in their packs, so that files can
// share them. The zeros before them are few, and the ranges are those of the image.
func TestRangesOfPacks(t *testing.T) {
	compressor := newCompressor(t, squashfs.Options{Compression: squashfs.None})
	w, err := squashfs.NewWriter(squashfs.Options{Compression: squashfs.None})
	if err != nil {
		t.Fatal(err)
	}
	root, packed := squashfs.NewDir(0o755, 0, 0, 0), int64(0)
	for i, sizes := range [][]int{{900_000, 10, 700_000}, {900_000, 800_000}, {5000}, {600_000, 200_000}} {
		content := pack(t, squashfs.Options{Compression: squashfs.None}, func(p *squashfs.Packer, root *squashfs.Inode) {
			for n, size := range sizes { // equal sizes are equal contents
				root.Set(string(rune('a'+n)), file(t, p, bytes.NewReader(noise(uint64(size), size))))
			}
		})
		packed += int64(len(content))
		opened, err := compressor.OpenPack(source{bytes.NewReader(content)}, int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		w.AddPack(opened)
		root.Set(string(rune('a'+i)), opened.Root)
	}
	image, err := w.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	var ranges []string
	all := image.Ranges()
	for _, r := range all {
		ranges = append(ranges, fmt.Sprintf("%d %d", r.Size/100_000, (r.At-r.From)%4096))
	}
	if got, want := strings.Join(ranges, ", "), "16 0, 8 0, 8 0"; got != want {
		t.Errorf("got the ranges %s, want %s", got, want)
	}
	var out bytes.Buffer
	if _, err := image.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	if got, most := int64(out.Len()), packed-900_000+3*4096+8192; got > most {
		t.Errorf("got an image of %d bytes, want at most %d", got, most)
	}
	for _, r := range all {
		want := make([]byte, r.Size)
		if _, err := r.File.ReadAt(want, r.From); err != nil || !bytes.Equal(want, out.Bytes()[r.At:][:r.Size]) {
			t.Errorf("%d bytes at %d: got other bytes than those of the file, %v", r.Size, r.At, err)
		}
	}
}
