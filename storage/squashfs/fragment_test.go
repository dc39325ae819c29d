package squashfs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Fragment blocks are smaller than data blocks: the kernel, unsquashfs and mksquashfs, which appends to
// the image, read them, and none is larger than 32 KiB or than a data block.
func TestFragmentBlocks(t *testing.T) {
	for _, block := range []int{4 << 10, 32 << 10, 128 << 10, 1 << 20} {
		t.Run(fmt.Sprint(block), func(t *testing.T) {
			limit := min(block, 32<<10)
			content := func(i int) []byte { return noise(uint64(i), i*977%(2*limit)) }
			const files = 200
			img := image(t, squashfs.Options{BlockSize: block}, func(p *squashfs.Packer, root *squashfs.Inode) {
				for i := range files {
					root.Set(fmt.Sprint(i), file(t, p, bytes.NewReader(content(i))))
				}
			})
			checkFragments(t, img, limit, files)
			check := func(reader, dir string) {
				for i := range files {
					if got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i))); err != nil || !bytes.Equal(got, content(i)) {
						t.Errorf("%s: file %d of %d bytes: got other content, %v", reader, i, len(content(i)), err)
					}
				}
			}
			check("kernel", fixtures.Mount(t, img))
			unpacked := filepath.Join(t.TempDir(), "unpacked")
			fixtures.Run(t, "unsquashfs", "-quiet", "-no-progress", "-d", unpacked, img)
			check("unsquashfs", unpacked)
			larger := filepath.Join(t.TempDir(), "larger.squashfs")
			fixtures.Run(t, "cp", img, larger)
			fixtures.Run(t, "mksquashfs", unpacked, larger, "-quiet", "-no-progress", "-root-becomes", "old")
			dir := fixtures.Mount(t, larger)
			check("mksquashfs", dir)
			check("mksquashfs", filepath.Join(dir, "old"))
		})
	}
}

// The fragment table is not compressed: the blocks of the image that its index lists have the bit of plain ones.
func TestFragmentTableIsPlain(t *testing.T) {
	img := image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		for i := range 1000 { // of 16 KiB, so that there are 500 fragment blocks: a table that would compress
			root.Set(fmt.Sprint(i), file(t, p, bytes.NewReader(noise(uint64(i), 16<<10))))
		}
	})
	all, err := os.ReadFile(img)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	const tableStart, plain = 80, 0x8000 // squashfs_super_block of the kernel's fs/squashfs/squashfs_fs.h
	block := le.Uint64(all[le.Uint64(all[tableStart:]):])
	if header := le.Uint16(all[block:]); header&plain == 0 || header&^plain != 500*16 {
		t.Errorf("got the header %#x, want a plain block of %d bytes", header, 500*16)
	}
}

// checkFragments checks the uncompressed sizes of the fragment blocks of an image, in bytes.
func checkFragments(t *testing.T, img string, limit, files int) {
	t.Helper()
	f, err := os.Open(img)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, err := squashfs.OpenImage(f, fi.Size())
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := squashfs.FragmentSizes(r)
	if err != nil || len(sizes) == 0 || len(sizes) >= files/2 {
		t.Errorf("got %d fragment blocks, %v, want at least one, and several files in most of them", len(sizes), err)
	}
	for _, size := range sizes {
		if size > limit {
			t.Errorf("got a fragment block of %d bytes, want at most %d", size, limit)
		}
	}
}
