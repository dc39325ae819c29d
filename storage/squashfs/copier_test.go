package squashfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// transfer returns an image with copies of trees of another image. It calls WriteTree for each
// tree.
func transfer(r *squashfs.Reader, trees ...string) (*squashfs.Image, error) {
	w, err := squashfs.NewWriter(r.Options())
	if err != nil {
		return nil, err
	}
	c, err := w.NewCopier(r)
	if err != nil {
		return nil, err
	}
	if len(trees) == 1 && trees[0] == "." {
		root, err := c.Copy(".")
		if err != nil {
			return nil, err
		}
		return w.Close(root)
	}
	root := squashfs.NewDir(0o755, 0, 0, 1)
	root.Xattrs = map[string]string{"user.a": "b"}
	for _, name := range trees {
		tree, err := c.Copy(name)
		if err != nil {
			return nil, err
		}
		root.Set(path.Base(name), tree)
		if err := w.WriteTree(tree); err != nil {
			return nil, err
		}
	}
	return w.Close(root)
}

// writeTransfer writes the image of transfer to a file.
func writeTransfer(t *testing.T, from string, trees ...string) (name string, size int64) {
	t.Helper()
	img, err := transfer(open(t, from), trees...)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "transferred.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := img.WriteTo(f); err != nil || n != img.Size() {
		t.Fatalf("got %d bytes, %v, want %d", n, err, img.Size())
	}
	return f.Name(), img.Size()
}

// A copy equals the original, according to the kernel and sqfsdiff.
func TestCopiesAreEqual(t *testing.T) {
	dir := makeFolder(t)
	images := map[string]string{
		"pinbox":      image(t, squashfs.Options{}, allKinds(t)),
		"pinbox none": image(t, squashfs.Options{Compression: squashfs.None}, allKinds(t)),
	}
	for name, args := range map[string]string{
		"zstd": "-comp zstd", "gzip": "-comp gzip -b 4096", "no fragments": "-comp zstd -no-fragments",
		"always fragments": "-comp gzip -always-use-fragments",
	} {
		images[name] = filepath.Join(t.TempDir(), "image.squashfs")
		fixtures.Run(t, "mksquashfs", append([]string{dir, images[name], "-quiet", "-no-progress"},
			strings.Fields(args)...)...)
	}
	for name, from := range images {
		t.Run(name, func(t *testing.T) {
			to, size := writeTransfer(t, from, ".")
			if diff := cmp.Diff(fixtures.Tree(t, fixtures.Mount(t, from)), fixtures.Tree(t, fixtures.Mount(t, to))); diff != "" {
				t.Errorf("(-original +copy)\n%.3000s", diff)
			}
			// The original and the copy may differ in whether a large directory has an index.
			out, err := exec.Command(fixtures.Need(t, "sqfsdiff"), "-T", "-a", from, "-b", to).CombinedOutput()
			for line := range strings.Lines(string(out)) {
				if !strings.Contains(line, "extended type") {
					t.Errorf("sqfsdiff: got %v and %q, want no difference", err, line)
				}
			}
			if fi, err := os.Stat(from); err != nil || size > fi.Size()+fi.Size()/20+8192 {
				t.Errorf("got a copy of %d bytes, %v, want about %d", size, err, fi.Size())
			}
		})
	}
}

// Copied trees share contents as they do in the original, and contents of other trees are not
// copied.
func TestCopiesShareContents(t *testing.T) {
	shared, own := noise(1, 1<<20), noise(2, 1<<20)
	from := image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		for n, content := range [][]byte{shared, shared, own} {
			dir := squashfs.NewDir(0o755, 0, 0, 1)
			root.Set(fmt.Sprint(n), dir)
			dir.Set("long", file(t, p, bytes.NewReader(content)))
			for i := range 100 {
				dir.Set(fmt.Sprint(i), file(t, p, bytes.NewReader(content[i:][:2000])))
			}
		}
	})
	sizes := map[string]int64{}
	for _, trees := range []string{"0", "0 1", "0 2", "0 1 2"} {
		to, size := writeTransfer(t, from, strings.Fields(trees)...)
		sizes[trees] = size
		mounted := fixtures.Mount(t, to)
		for _, tree := range strings.Fields(trees) {
			want := map[string][]byte{"0": shared, "1": shared, "2": own}[tree]
			for name, want := range map[string][]byte{"long": want, "0": want[:2000], "99": want[99:][:2000]} {
				if got, err := os.ReadFile(filepath.Join(mounted, tree, name)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("trees %s: %s/%s: got other content, %v", trees, tree, name, err)
				}
			}
		}
	}
	if more := sizes["0 1"] - sizes["0"]; more > 8192 {
		t.Errorf("a second tree with the same content: got %d more bytes, want at most 8192", more)
	}
	if more := sizes["0 2"] - sizes["0"]; more < 500_000 {
		t.Errorf("a second tree with other content: got %d more bytes, want at least 500,000", more)
	}
	if more := sizes["0 1 2"] - sizes["0 2"]; more > 8192 {
		t.Errorf("a third tree with the same content as the first: got %d more bytes, want at most 8192", more)
	}
}

func TestCopierNeedsEqualOptions(t *testing.T) {
	r := open(t, image(t, squashfs.Options{}, allKinds(t)))
	for _, opts := range []squashfs.Options{
		{Compression: squashfs.Gzip}, {Compression: squashfs.None}, {BlockSize: 1 << 20},
	} {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			w, err := squashfs.NewWriter(opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.NewCopier(r); !errors.Is(err, squashfs.ErrIncompatible) {
				t.Errorf("got %v, want %v", err, squashfs.ErrIncompatible)
			}
		})
	}
}

// removable is an image on a medium that can be removed.
type removable struct {
	io.ReaderAt
	removed bool
}

func (r *removable) ReadAt(p []byte, at int64) (int, error) {
	if r.removed {
		return 0, os.ErrClosed
	}
	return r.ReaderAt.ReadAt(p, at)
}

func TestCopyFromRemovedMedium(t *testing.T) {
	content, err := os.ReadFile(image(t, squashfs.Options{}, allKinds(t)))
	if err != nil {
		t.Fatal(err)
	}
	medium := &removable{ReaderAt: bytes.NewReader(content)}
	r, err := squashfs.OpenImage(medium, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	img, err := transfer(r, ".")
	if err != nil {
		t.Fatal(err)
	}
	medium.removed = true
	if _, err := img.WriteTo(io.Discard); !errors.Is(err, squashfs.ErrDamaged) || !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want %v and %v", err, squashfs.ErrDamaged, os.ErrClosed)
	}
}
