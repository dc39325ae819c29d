package squashfs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// What a compressor has written is checked by keyed sums when it is copied into an image, once, and else by SHA-256.
// Both find a change of any extent.
func TestPackThatWasJustWritten(t *testing.T) {
	write := func(compressor *squashfs.Compressor) []byte {
		var b bytes.Buffer
		p := compressor.NewPacker(&b)
		defer p.Abort()
		root := squashfs.NewDir(0o755, 0, 0, 0)
		root.Set("long", file(t, p, bytes.NewReader(noise(1, 300_000))))
		file(t, p, bytes.NewReader(noise(4, 200_000))) // no name in the tree has it
		root.Set("short", file(t, p, strings.NewReader("short")))
		if err := p.Close(root, nil); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	foot := func(pack []byte) []byte { return pack[len(pack)-48:] } // begins with where the index is
	for name, c := range map[string]struct {
		damage func(pack []byte)
		want   error
	}{
		"intact": {func([]byte) {}, nil},
		"long":   {func(pack []byte) { pack[1000] ^= 1 }, squashfs.ErrDamaged},
		"short": {
			func(pack []byte) { pack[binary.LittleEndian.Uint64(foot(pack))-1] ^= 1 }, squashfs.ErrDamaged,
		},
	} {
		compressor := newCompressor(t, squashfs.Options{})
		content := write(compressor)
		c.damage(content)
		for who, reader := range map[string]*squashfs.Compressor{
			"its compressor": compressor, "another one": newCompressor(t, squashfs.Options{}),
		} {
			if err := writeImage(t, reader, content); !errors.Is(err, c.want) {
				t.Errorf("%s, for %s: got %v, want %v", name, who, err, c.want)
			}
		}
	}
	compressor := newCompressor(t, squashfs.Options{})
	content := write(compressor)
	for n, want := range []int{2, 0} {
		pack, err := compressor.OpenPack(source{bytes.NewReader(content)}, int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		if got := squashfs.KeyedExtents(pack); got != want {
			t.Errorf("opened %d times: got %d keyed sums, want %d", n+1, got, want)
		}
	}
}
