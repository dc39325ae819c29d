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

// treeMaker makes the same random tree in an image and in a folder.
type treeMaker struct {
	t     *testing.T
	p     *squashfs.Packer
	r     *rand.Rand
	block int
	// files that a hard link can link to.
	files []linkTarget
}

type linkTarget struct {
	inode *squashfs.Inode
	path  string
}

func (m *treeMaker) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *treeMaker) fill(dir *squashfs.Inode, path string, depth int) {
	for n := range m.r.IntN(12) {
		name := fmt.Sprintf("%d-%x", n, make([]byte, m.r.IntN(40)))
		child := filepath.Join(path, name)
		kind := m.r.IntN(8)
		if kind == 0 && len(m.files) > 0 {
			l := m.files[m.r.IntN(len(m.files))]
			m.check(os.Link(l.path, child))
			dir.Set(name, l.inode)
			continue
		}
		i := m.entry(kind, child, depth)
		m.setAttributes(i, child)
		dir.Set(name, i)
		if kind > 2 {
			m.files = append(m.files, linkTarget{i, child})
		}
	}
}

func (m *treeMaker) entry(kind int, path string, depth int) *squashfs.Inode {
	switch kind {
	case 0, 1:
		m.check(os.Mkdir(path, 0o755))
		i := squashfs.NewDir(0o755, 0, 0, 1)
		if depth > 0 {
			m.fill(i, path, depth-1)
		}
		return i
	case 2:
		target := string(bytes.Repeat([]byte("x/"), 1+m.r.IntN(300)))
		m.check(os.Symlink(target, path))
		return &squashfs.Inode{Mode: syscall.S_IFLNK | 0o777, Target: target}
	case 3:
		kinds := []uint32{syscall.S_IFCHR, syscall.S_IFBLK, syscall.S_IFIFO, syscall.S_IFSOCK}
		i := &squashfs.Inode{Mode: kinds[m.r.IntN(4)] | 0o640}
		if k := i.Mode & syscall.S_IFMT; k == syscall.S_IFCHR || k == syscall.S_IFBLK {
			i.Major, i.Minor = m.r.Uint32N(4000), m.r.Uint32N(1<<20)
		}
		m.check(syscall.Mknod(path, i.Mode, int(i.Minor&0xff|i.Major<<8|(i.Minor&^0xff)<<12)))
		return i
	}
	content := m.content()
	m.check(os.WriteFile(path, content, 0o644))
	return file(m.t, m.p, bytes.NewReader(content))
}

// content returns content of a size around the block size, with holes. Many files have the same.
func (m *treeMaker) content() []byte {
	sizes := []int{0, 1, 100, m.block - 1, m.block, m.block + 1, 3*m.block + 7}
	b := noise(m.r.Uint64N(3), sizes[m.r.IntN(len(sizes))])
	if from := m.r.IntN(2) * m.block; from < len(b) {
		clear(b[from:min(len(b), from+m.block)])
	}
	return b
}

// setAttributes sets owner, mode and extended attributes.
func (m *treeMaker) setAttributes(i *squashfs.Inode, path string) {
	i.UID, i.GID = m.r.Uint32N(1<<31), m.r.Uint32N(3)
	m.check(os.Lchown(path, int(i.UID), int(i.GID)))
	if i.IsSymlink() {
		return
	}
	i.Mode = i.Mode&syscall.S_IFMT | m.r.Uint32N(0o10000)
	m.check(syscall.Chmod(path, i.Mode&0o7777))
	if m.r.IntN(3) == 0 {
		i.Xattrs = map[string]string{"trusted.a": fmt.Sprint(m.r.IntN(4)), "security.b": string(noise(1, m.r.IntN(300)))}
		for name, value := range i.Xattrs {
			m.check(syscall.Setxattr(path, name, []byte(value), 0))
		}
	}
}

// The kernel and unsquashfs read a random tree from an image as it is in a folder.
func TestTrees(t *testing.T) {
	fixtures.NeedRoot(t)
	for seed := range uint64(fixtures.Soak(t, 24)) {
		r := rand.New(rand.NewPCG(seed, 7))
		opts := squashfs.Options{
			BlockSize:   4096 << r.IntN(6),
			Workers:     1 + r.IntN(4),
			Compression: []squashfs.Compression{squashfs.Zstd, squashfs.Gzip, squashfs.None}[r.IntN(3)],
		}
		folder := t.TempDir()
		// If an image has no attributes at all, the kernel fails to list the attributes of a file.
		if err := errors.Join(os.Chmod(folder, 0o755), syscall.Setxattr(folder, "user.a", []byte("b"), 0)); err != nil {
			t.Fatal(err)
		}
		img := image(t, opts, func(p *squashfs.Packer, root *squashfs.Inode) {
			m := treeMaker{t: t, p: p, r: r, block: opts.BlockSize}
			root.Xattrs = map[string]string{"user.a": "b"}
			m.fill(root, folder, 3)
		})
		want := fixtures.Tree(t, folder)
		if diff := cmp.Diff(want, fixtures.Tree(t, fixtures.Mount(t, img))); diff != "" {
			t.Errorf("seed %d, %+v: the kernel reads it differently (-folder +image):\n%s", seed, opts, diff)
		}
		unpacked := filepath.Join(t.TempDir(), "x")
		fixtures.Run(t, "unsquashfs", "-quiet", "-no-progress", "-d", unpacked, img)
		if diff := cmp.Diff(want, fixtures.Tree(t, unpacked)); diff != "" {
			t.Errorf("seed %d, %+v: unsquashfs reads it differently (-folder +image):\n%s", seed, opts, diff)
		}
	}
}

// A file of 5 GiB that is a hole except for its ends takes two blocks. An image can have 65,536
// owners; one more is an error.
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
		t.Errorf("got ends %q, %v, %v, want firstlast", ends, errFirst, errLast)
	}
	if st := lstat(t, filepath.Join(dir, "holes")); st.Size != size || st.Blocks > 2<<11 {
		t.Errorf("got %d bytes in %d sectors, want %d in at most %d", st.Size, st.Blocks, size, 2<<11)
	}
	if st := lstat(t, filepath.Join(dir, "d/65534")); st.Uid != 65534 {
		t.Errorf("got owner %d, want 65534", st.Uid)
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
		t.Error("65,537 owners: got no error")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
