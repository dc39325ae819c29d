package squashfs_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// stored returns an image with a file whose blocks are not compressed, although others of the image may be: that of
// another encoder.
func stored(t *testing.T, content string) *squashfs.Reader {
	t.Helper()
	name := image(t, squashfs.Options{Compression: squashfs.None}, withFile(t, content))
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[20:], []byte{6, 0}) // the number of the compression in the superblock
	r, err := squashfs.OpenImage(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func withFile(t *testing.T, content string) func(*squashfs.Packer, *squashfs.Inode) {
	return func(p *squashfs.Packer, root *squashfs.Inode) {
		root.Set("file", file(t, p, strings.NewReader(content)))
	}
}

// packSize returns the size of the pack of a content, with a cache of the blocks that were read from an image.
func packSize(t *testing.T, content string, opts squashfs.Options, read *squashfs.Reader) int {
	t.Helper()
	compressor := newCompressor(t, opts)
	f, err := read.Open("file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	compressor.Cache().Fill(f)
	if _, err := io.Copy(io.Discard, f); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := compressor.NewPacker(&out)
	root := squashfs.NewDir(0o755, 0, 0, 1)
	withFile(t, content)(p, root)
	if err := p.Close(root, nil); err != nil {
		t.Fatal(err)
	}
	return out.Len()
}

// A pack takes a block that was read if all of its data are equal. The blocks that were read are not compressed here,
// so that they can be told from others.
func TestBlockCache(t *testing.T) {
	const block = 128 << 10
	text := strings.Repeat("0123456789abcdef", 3*block/16)
	last := text[:len(text)-1] + "!"
	for _, tc := range []struct {
		name          string
		read, content string
		opts          squashfs.Options
		want          int // blocks that were taken
	}{
		{"equal", text, text, squashfs.Options{}, 3},
		{"another last byte", text, last, squashfs.Options{}, 2},
		{"a longer last block", text[:2*block+10], text[:2*block+11], squashfs.Options{}, 2},
		{"a short last block", text[:2*block+1000], text[:2*block+1000], squashfs.Options{}, 2},
		{"the end of a file in a fragment block", text[:1000], text[:1000], squashfs.Options{}, 0},
		{"other data", strings.ToUpper(text), text, squashfs.Options{}, 0},
		{"another block size", text, text, squashfs.Options{BlockSize: 64 << 10}, 0},
		{"another compression", text, text, squashfs.Options{Compression: squashfs.Gzip}, 0},
		{"zeros", strings.Repeat("\x00", 2*block), strings.Repeat("\x00", 2*block), squashfs.Options{}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := packSize(t, tc.content, tc.opts, stored(t, tc.read)) / block
			if got != tc.want {
				t.Errorf("got %d blocks as they were read, want %d", got, tc.want)
			}
		})
	}
}

func TestEqualBlocks(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 20_000)
	whole := func(content string) func(*testing.T) *squashfs.Reader {
		return func(t *testing.T) *squashfs.Reader {
			return open(t, image(t, squashfs.Options{}, withFile(t, content)))
		}
	}
	gzip := func(t *testing.T) *squashfs.Reader {
		return open(t, image(t, squashfs.Options{Compression: squashfs.Gzip}, withFile(t, text[:1000])))
	}
	for _, tc := range []struct {
		name string
		a, b func(*testing.T) *squashfs.Reader
		want bool
	}{
		{"equal", whole(text), whole(text), true},
		{"another byte", whole(text), whole(text[:200_000] + "!" + text[200_001:]), false},
		{"equal sizes of blocks", whole(string(noise(1, 200_000))), whole(string(noise(2, 200_000))), false},
		{"fewer blocks", whole(text), whole(text[:131_072]), false},
		{"no blocks", whole(text[:1000]), whole(text[1000:2000]), true},
		{"another encoder", whole(text), func(t *testing.T) *squashfs.Reader { return stored(t, text) }, false},
		{"another compression", whole(text[:1000]), gzip, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x, err := tc.a(t).Open("file")
			if err != nil {
				t.Fatal(err)
			}
			y, err := tc.b(t).Open("file")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := squashfs.EqualBlocks(x, y); got != tc.want || err != nil {
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}
