package squashfs_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// An image of each level has the level in its head, where unsquashfs and a Reader find it, and the kernel
// reads the image. A higher level makes a smaller image, and has packs of its own in the cache.
func TestLevels(t *testing.T) {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	text := func(i int) []byte { return program[i<<20:][:1<<20] }
	encodings := map[string]bool{}
	for compression, numbers := range map[squashfs.Compression][]int{
		squashfs.Zstd: {1, 3, 15}, squashfs.Gzip: {1, 6, 9},
	} {
		smallest := int64(math.MaxInt64)
		for i, level := range []squashfs.Level{squashfs.Fast, squashfs.Default, squashfs.Best} {
			t.Run(fmt.Sprintf("%s %s", compression, level), func(t *testing.T) {
				opts := squashfs.Options{Compression: compression, Level: level}
				img := image(t, opts, func(p *squashfs.Packer, root *squashfs.Inode) {
					for i := range 2 {
						root.Set(fmt.Sprint(i), file(t, p, bytes.NewReader(text(i))))
					}
				})
				dir := fixtures.Mount(t, img)
				for i := range 2 {
					if got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i))); err != nil || !bytes.Equal(got, text(i)) {
						t.Errorf("file %d: got other content, %v", i, err)
					}
				}
				about := fixtures.Run(t, "unsquashfs", "-s", img)
				if want := fmt.Sprintf("compression-level %d\n", numbers[i]); !strings.Contains(about, want) {
					t.Errorf("unsquashfs: got %s, want %q", about, want)
				}
				if got := open(t, img).Options(); got.Level != level || got.Compression != compression {
					t.Errorf("got the options %+v, want %s %s", got, compression, level)
				}
				fi, err := os.Stat(img)
				if err != nil || fi.Size() >= smallest {
					t.Errorf("got %v, %v, want less than %d bytes", fi.Size(), err, smallest)
				}
				smallest = fi.Size()
				if err := opts.Validate(); err != nil || encodings[opts.Encoding()] {
					t.Errorf("got the encoding %s, %v, want one of its own", opts.Encoding(), err)
				}
				encodings[opts.Encoding()] = true
			})
		}
	}
}
