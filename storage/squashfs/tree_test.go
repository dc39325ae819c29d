package squashfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// twin makes the same tree twice: in an image, and in a folder.
type twin struct {
	t     *testing.T
	p     *squashfs.Packer
	r     *rand.Rand
	block int
	// files that a hard link may lead to.
	files []linked
}

type linked struct {
	inode *squashfs.Inode
	path  string
}

func (tw *twin) must(err error) {
	tw.t.Helper()
	if err != nil {
		tw.t.Fatal(err)
	}
}

func (tw *twin) fill(dir *squashfs.Inode, path string, depth int) {
	for n := range tw.r.IntN(12) {
		name := fmt.Sprintf("%d-%x", n, make([]byte, tw.r.IntN(40)))
		child := filepath.Join(path, name)
		kind := tw.r.IntN(8)
		if kind == 0 && len(tw.files) > 0 {
			l := tw.files[tw.r.IntN(len(tw.files))]
			tw.must(os.Link(l.path, child))
			dir.Set(name, l.inode)
			continue
		}
		i := tw.entry(kind, child, depth)
		tw.own(i, child)
		dir.Set(name, i)
		if kind > 2 {
			tw.files = append(tw.files, linked{i, child})
		}
	}
}

func (tw *twin) entry(kind int, path string, depth int) *squashfs.Inode {
	switch kind {
	case 0, 1:
		tw.must(os.Mkdir(path, 0o755))
		i := squashfs.NewDir(0o755, 0, 0, 1)
		if depth > 0 {
			tw.fill(i, path, depth-1)
		}
		return i
	case 2:
		target := string(bytes.Repeat([]byte("x/"), 1+tw.r.IntN(300)))
		tw.must(os.Symlink(target, path))
		return &squashfs.Inode{Mode: syscall.S_IFLNK | 0o777, Target: target}
	case 3:
		kinds := []uint32{syscall.S_IFCHR, syscall.S_IFBLK, syscall.S_IFIFO, syscall.S_IFSOCK}
		i := &squashfs.Inode{Mode: kinds[tw.r.IntN(4)] | 0o640}
		if k := i.Mode & syscall.S_IFMT; k == syscall.S_IFCHR || k == syscall.S_IFBLK {
			i.Major, i.Minor = tw.r.Uint32N(4000), tw.r.Uint32N(1<<20)
		}
		tw.must(syscall.Mknod(path, i.Mode, int(i.Minor&0xff|i.Major<<8|(i.Minor&^0xff)<<12)))
		return i
	}
	content := tw.content()
	tw.must(os.WriteFile(path, content, 0o644))
	return file(tw.t, tw.p, bytes.NewReader(content))
}

// content is of a few sizes around that of a block, with holes, and often the same.
func (tw *twin) content() []byte {
	sizes := []int{0, 1, 100, tw.block - 1, tw.block, tw.block + 1, 3*tw.block + 7}
	b := noise(tw.r.Uint64N(3), sizes[tw.r.IntN(len(sizes))])
	if from := tw.r.IntN(2) * tw.block; from < len(b) {
		clear(b[from:min(len(b), from+tw.block)])
	}
	return b
}

// own gives owner, mode and attributes.
func (tw *twin) own(i *squashfs.Inode, path string) {
	i.UID, i.GID = tw.r.Uint32N(1<<31), tw.r.Uint32N(3)
	tw.must(os.Lchown(path, int(i.UID), int(i.GID)))
	if i.IsSymlink() {
		return
	}
	i.Mode = i.Mode&syscall.S_IFMT | tw.r.Uint32N(0o10000)
	tw.must(syscall.Chmod(path, i.Mode&0o7777))
	if tw.r.IntN(3) == 0 {
		i.Xattrs = map[string]string{"trusted.a": fmt.Sprint(tw.r.IntN(4)), "security.b": string(noise(1, tw.r.IntN(300)))}
		for name, value := range i.Xattrs {
			tw.must(syscall.Setxattr(path, name, []byte(value), 0))
		}
	}
}

// Whatever the tree, the kernel and unsquashfs read what a folder of the same would be.
func FuzzTrees(f *testing.F) {
	for seed := range uint64(24) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		fixtures.NeedRoot(t)
		r := rand.New(rand.NewPCG(seed, 7))
		opts := squashfs.Options{
			BlockSize:   4096 << r.IntN(6),
			Workers:     1 + r.IntN(4),
			Compression: []squashfs.Compression{squashfs.Zstd, squashfs.Gzip, squashfs.None}[r.IntN(3)],
		}
		folder := t.TempDir()
		// Without any attribute the kernel fails to list those of a file.
		if err := errors.Join(os.Chmod(folder, 0o755), syscall.Setxattr(folder, "user.a", []byte("b"), 0)); err != nil {
			t.Fatal(err)
		}
		img := image(t, opts, func(p *squashfs.Packer, root *squashfs.Inode) {
			tw := twin{t: t, p: p, r: r, block: opts.BlockSize}
			root.Xattrs = map[string]string{"user.a": "b"}
			tw.fill(root, folder, 3)
		})
		want := fixtures.Tree(t, folder)
		if diff := cmp.Diff(want, fixtures.Tree(t, fixtures.Mount(t, img))); diff != "" {
			t.Errorf("%+v: the kernel reads it differently (-folder +image):\n%s", opts, diff)
		}
		unpacked := filepath.Join(t.TempDir(), "x")
		fixtures.Run(t, "unsquashfs", "-quiet", "-no-progress", "-d", unpacked, img)
		if diff := cmp.Diff(want, fixtures.Tree(t, unpacked)); diff != "" {
			t.Errorf("%+v: unsquashfs reads it differently (-folder +image):\n%s", opts, diff)
		}
	})
}

// A file of 5 GiB that is all holes but for its ends takes two blocks, and as many
// owners as the format can number are fine; one more is an error.
func TestLimits(t *testing.T) {
	const size = 5 << 30
	img := image(t, squashfs.Options{BlockSize: 1 << 20}, func(p *squashfs.Packer, root *squashfs.Inode) {
		root.Set("holes", file(t, p, io.MultiReader(bytes.NewReader([]byte("first")), io.LimitReader(zeros{}, size-9),
			bytes.NewReader([]byte("last")))))
		d := squashfs.NewDir(0o755, 0, 0, 1)
		root.Set("d", d)
		for id := range uint32(65535) {
			d.Set(fmt.Sprint(id), &squashfs.Inode{Mode: syscall.S_IFREG | 0o600, UID: id, GID: id})
		}
	})
	dir := fixtures.Mount(t, img)
	f, err := os.Open(filepath.Join(dir, "holes"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ends := make([]byte, 9)
	_, errFirst := f.ReadAt(ends[:5], 0)
	_, errLast := f.ReadAt(ends[5:], size-4)
	if errFirst != nil || errLast != nil || string(ends) != "firstlast" {
		t.Errorf("%v, %v, %q", errFirst, errLast, ends)
	}
	if st := mustStat(t, filepath.Join(dir, "holes")); st.Size != size || st.Blocks > 2<<11 {
		t.Errorf("%d bytes in %d sectors", st.Size, st.Blocks)
	}
	if st := mustStat(t, filepath.Join(dir, "d/65534")); st.Uid != 65534 {
		t.Errorf("owner %d", st.Uid)
	}
	w, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	root := squashfs.NewDir(0o755, 0, 0, 1)
	for id := range uint32(65537) {
		root.Set(fmt.Sprint(id), &squashfs.Inode{Mode: syscall.S_IFREG | 0o600, UID: id})
	}
	if _, err := w.Close(root); err == nil {
		t.Error("65537 owners")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
