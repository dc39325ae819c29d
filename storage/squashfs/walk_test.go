package squashfs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Walk visits the files that fs.WalkDir visits, with their sizes.
func TestWalk(t *testing.T) {
	r := open(t, image(t, squashfs.Options{}, allKinds(t)))
	want, got := map[string]int64{}, map[string]int64{}
	err := fs.WalkDir(r, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			want[name] = 0
			if fi.Mode().IsRegular() {
				want[name] = fi.Size()
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = squashfs.Walk(t.Context(), r, ".", func(e squashfs.Entry) error {
		got[e.Path] = e.Size
		if e.Whiteout != (e.Path == "sub/whiteout") {
			t.Errorf("%s: got whiteout %v", e.Path, e.Whiteout)
		}
		return nil
	})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("got %v (-WalkDir +Walk):\n%s", err, diff)
	}
}

// The extents of all files are the data of an image: all of it but the tables, each byte once.
func TestExtents(t *testing.T) {
	name := image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		for n, content := range []string{
			string(noise(1, 300<<10)), string(noise(2, 1000)), string(noise(3, 2000)), strings.Repeat("\x00", 200<<10),
			strings.Repeat("text ", 100_000),
		} {
			root.Set(fmt.Sprint("file", n), file(t, p, strings.NewReader(content)))
			root.Set(fmt.Sprint("equal", n), file(t, p, strings.NewReader(content)))
		}
	})
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, name)
	extents := map[uint64]int64{}
	err = squashfs.Walk(t.Context(), r, ".", func(e squashfs.Entry) error {
		for _, x := range e.Extents {
			extents[x.Key] = x.Stored
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got int64
	for _, stored := range extents {
		got += stored
	}
	const superblock, inodeTable, rounding = 96, 64, 10 // bytes; the offset of the table's offset
	want := int64(binary.LittleEndian.Uint64(content[inodeTable:])) - superblock
	if got > want || got < want-rounding {
		t.Errorf("got %d bytes of contents, want %d, where the tables begin", got, want)
	}
}

// An image that lists a directory twice would be walked for ever: 2 to the power of its depth.
func TestDirectoryThatIsListedTwice(t *testing.T) {
	w, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	root, dir := squashfs.NewDir(0o755, 0, 0, 0), squashfs.NewDir(0o755, 0, 0, 0)
	root.Set("a", dir)
	root.Set("b", dir)
	img, err := w.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if _, err := img.WriteTo(&content); err != nil {
		t.Fatal(err)
	}
	r, err := squashfs.OpenImage(bytes.NewReader(content.Bytes()), int64(content.Len()))
	if err != nil {
		t.Fatal(err)
	}
	err = squashfs.Walk(t.Context(), r, ".", func(squashfs.Entry) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "listed twice") {
		t.Errorf("got %v, want an error", err)
	}
}
