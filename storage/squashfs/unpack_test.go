package squashfs_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// unpackAll reads all contents of a tree.
func unpackAll(compressor *squashfs.Compressor, root *squashfs.Inode) error {
	u := compressor.NewUnpacker()
	var errs []error
	for _, child := range root.All() {
		errs = append(errs, u.Copy(io.Discard, child.Content))
	}
	return errors.Join(errs...)
}

// An Unpacker reads the contents that a Packer has written: with each compression, of sizes around
// the block size, with holes, and of more short files than an Unpacker caches blocks.
func TestUnpacker(t *testing.T) {
	want := map[string][]byte{
		"hole": append(make([]byte, 10_000), noise(1, 10_000)...), "zeros": make([]byte, 12_288),
		"text": bytes.Repeat([]byte("text "), 5000),
	}
	for _, n := range []int{0, 1, 4095, 4096, 4097, 8192, 8193, 100_000} {
		want[string(rune('a'+n%23))+"-long"] = noise(uint64(n), n)
	}
	for n := range 200 {
		want["short-"+string(rune('0'+n))] = noise(uint64(n), 600+n)
	}
	for _, compression := range []squashfs.Compression{squashfs.Zstd, squashfs.Gzip, squashfs.None} {
		t.Run(string(compression), func(t *testing.T) {
			opts := squashfs.Options{Compression: compression, BlockSize: 4096}
			content := pack(t, opts, func(p *squashfs.Packer, root *squashfs.Inode) {
				for name, data := range want {
					root.Set(name, file(t, p, bytes.NewReader(data)))
				}
			})
			compressor := newCompressor(t, opts)
			opened, err := compressor.OpenPack(source{bytes.NewReader(content)}, int64(len(content)))
			if err != nil {
				t.Fatal(err)
			}
			u := compressor.NewUnpacker()
			for name, data := range want {
				var got bytes.Buffer
				if err := u.Copy(&got, opened.Root.Entry(name).Content); err != nil || !bytes.Equal(got.Bytes(), data) {
					t.Errorf("%s: got other content, %v", name, err)
				}
			}
		})
	}
}
