package squashfs_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// image writes one image with fill's tree and returns its path.
func image(t *testing.T, opts squashfs.Options, fill func(p *squashfs.Packer, root *squashfs.Inode)) string {
	t.Helper()
	return writePacks(t, opts, pack(t, opts, fill))
}

// source is a pack in memory.
type source struct{ *bytes.Reader }

func (source) Close() error { return nil }

func newCompressor(t *testing.T, opts squashfs.Options) *squashfs.Compressor {
	t.Helper()
	compressor, err := squashfs.NewCompressor(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(compressor.Close)
	return compressor
}

// pack writes a pack with fill's tree.
func pack(t *testing.T, opts squashfs.Options, fill func(p *squashfs.Packer, root *squashfs.Inode)) []byte {
	t.Helper()
	var b bytes.Buffer
	p := newCompressor(t, opts).NewPacker(&b)
	defer p.Abort()
	root := squashfs.NewDir(0o755, 0, 0, 1)
	fill(p, root)
	if err := p.Close(root, []byte("note")); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writePacks writes an image of packs. The last one is its root; the others are its directories
// "0", "1" and so on.
func writePacks(t *testing.T, opts squashfs.Options, packs ...[]byte) string {
	t.Helper()
	compressor := newCompressor(t, opts)
	w, err := squashfs.NewWriter(opts)
	if err != nil {
		t.Fatal(err)
	}
	var roots []*squashfs.Inode
	for _, content := range packs {
		p, err := compressor.OpenPack(source{bytes.NewReader(content)}, int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		w.AddPack(p)
		roots = append(roots, p.Root)
	}
	root := roots[len(roots)-1]
	for n, dir := range roots[:len(roots)-1] {
		root.Set(fmt.Sprint(n), dir)
		if err := w.WriteTree(dir); err != nil {
			t.Fatal(err)
		}
	}
	img, err := w.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "image.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := img.WriteTo(f); err != nil || n != img.Size() {
		t.Fatalf("got %d bytes, %v, want %d", n, err, img.Size())
	}
	return f.Name()
}

func file(t *testing.T, p *squashfs.Packer, r io.Reader) *squashfs.Inode {
	t.Helper()
	c, err := p.Content(r)
	if err != nil {
		t.Fatal(err)
	}
	return &squashfs.Inode{Mode: syscall.S_IFREG | 0o644, Content: c, ModTime: 5}
}

// noise is data that does not compress, mixed with data that does.
func noise(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, size)
	for i := range b {
		if i/4096%2 == 0 {
			b[i] = byte(r.Uint32())
		} else {
			b[i] = byte(i / 512)
		}
	}
	return b
}

func TestKernelReadsEverySizeOfFile(t *testing.T) {
	const block = 128 << 10
	sizes := []int{0, 1, 4096, block/4 - 1, block / 4, block/4 + 1, block - 1, block, block + 1, 2 * block, 3*block + 17, 5 << 20}
	img := image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		for i, n := range sizes {
			root.Set(fmt.Sprintf("f%d", i), file(t, p, bytes.NewReader(noise(uint64(i), n))))
		}
		root.Set("zeros", file(t, p, bytes.NewReader(make([]byte, 10*block+3))))
		root.Set("hole", file(t, p, io.MultiReader(bytes.NewReader(make([]byte, 2*block)), bytes.NewReader(noise(9, block)),
			bytes.NewReader(make([]byte, block+1)))))
	})
	dir := fixtures.Mount(t, img)
	for i, n := range sizes {
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("f%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, noise(uint64(i), n)) {
			t.Errorf("file of %d bytes: got other content", n)
		}
	}
	for name, want := range map[string]int64{"zeros": 10*block + 3, "hole": 4*block + 1} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Size() != want {
			t.Errorf("%s: got %d bytes, want %d", name, fi.Size(), want)
		}
	}
	if used := lstat(t, filepath.Join(dir, "zeros")).Blocks; used > 8 {
		t.Errorf("a file of zeros: got %d sectors, want at most 8", used)
	}
	hole, err := os.ReadFile(filepath.Join(dir, "hole"))
	if err != nil || !bytes.Equal(hole[2*block:3*block], noise(9, block)) {
		t.Errorf("data between two holes: got other content, %v", err)
	}
}

func lstat(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return &st
}

func TestKernelReadsEveryKindOfInode(t *testing.T) {
	img := image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		f := file(t, p, strings.NewReader("shared"))
		f.UID, f.GID, f.Mode = 70000, 5, syscall.S_IFREG|0o4755
		f.Xattrs = map[string]string{
			"user.a":              "1",
			"security.capability": "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		}
		sub := squashfs.NewDir(0o1777, 1, 2, 77)
		sub.Xattrs = map[string]string{"trusted.overlay.opaque": "y"}
		root.Set("sub", sub)
		sub.Set("a", f)
		sub.Set("b", f)
		sub.Set("link", &squashfs.Inode{Mode: syscall.S_IFLNK | 0o777, Target: "../sub/a"})
		sub.Set("dev", &squashfs.Inode{Mode: syscall.S_IFBLK | 0o600, Major: 259, Minor: 70000})
		sub.Set("wh", &squashfs.Inode{Mode: syscall.S_IFCHR})
		sub.Set("pipe", &squashfs.Inode{Mode: syscall.S_IFIFO | 0o600})
		sub.Set("sock", &squashfs.Inode{Mode: syscall.S_IFSOCK | 0o600})
	})
	dir := fixtures.Mount(t, img)
	a, b := lstat(t, dir+"/sub/a"), lstat(t, dir+"/sub/b")
	if a.Ino != b.Ino || a.Nlink != 2 || a.Uid != 70000 || a.Gid != 5 || a.Mode != syscall.S_IFREG|0o4755 {
		t.Errorf("hard link: got %+v and %+v, want one inode with the attributes of f", a, b)
	}
	if d := lstat(t, dir+"/sub/dev"); d.Rdev != 259<<8|70000&0xff|(70000&^0xff)<<12 {
		t.Errorf("got device number %x, want 259, 70000", d.Rdev)
	}
	if s := lstat(t, dir+"/sub"); s.Nlink != 2 || s.Mtim.Sec != 77 || s.Mode&07777 != 0o1777 {
		t.Errorf("directory: got %+v, want 2 links, time 77 and mode 1777", s)
	}
	if got, _ := os.Readlink(dir + "/sub/link"); got != "../sub/a" {
		t.Errorf("got a link to %q, want ../sub/a", got)
	}
	buf := make([]byte, 64)
	if n, err := syscall.Getxattr(dir+"/sub", "trusted.overlay.opaque", buf); err != nil || string(buf[:n]) != "y" {
		t.Errorf("opaque: got %q, %v, want y", buf[:max(n, 0)], err)
	}
	if n, err := syscall.Getxattr(dir+"/sub/a", "security.capability", buf); err != nil || n != 20 {
		t.Errorf("capability: got %d bytes, %v, want 20", n, err)
	}
	out, err := exec.Command(fixtures.Need(t, "unsquashfs"), "-lls", img).CombinedOutput()
	if err != nil {
		t.Fatalf("unsquashfs: %v\n%s", err, out)
	}
	for _, want := range []string{"-rwsr-xr-x 70000/", "drwxrwxrwt", "-> ../sub/a"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("unsquashfs -lls: want %q, got\n%s", want, out)
		}
	}
}

// A directory of many blocks has an index, by which the kernel finds each name.
func TestKernelFindsNamesInALargeDirectory(t *testing.T) {
	const n = 100_000
	img := image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		d := squashfs.NewDir(0o755, 0, 0, 1)
		root.Set("d", d)
		for i := range n {
			d.Set(fmt.Sprintf("%x-%d", sha256.Sum256([]byte{byte(i), byte(i >> 8)}), i), &squashfs.Inode{
				Mode: syscall.S_IFREG | 0o600, UID: uint32(i % 1000),
			})
		}
	})
	dir := fixtures.Mount(t, img)
	for i := 0; i < n; i += 97 {
		st := lstat(t, fmt.Sprintf("%s/d/%x-%d", dir, sha256.Sum256([]byte{byte(i), byte(i >> 8)}), i))
		if st.Uid != uint32(i%1000) {
			t.Fatalf("entry %d: got owner %d, want %d", i, st.Uid, i%1000)
		}
	}
	entries, err := os.ReadDir(dir + "/d")
	if err != nil || len(entries) != n {
		t.Errorf("got %d entries, %v, want %d", len(entries), err, n)
	}
}

func TestBytesDoNotDependOnWorkers(t *testing.T) {
	build := func(workers int) []byte {
		img := image(t, squashfs.Options{Workers: workers, ModTime: time.Unix(9, 0)},
			func(p *squashfs.Packer, root *squashfs.Inode) {
				for i := range 300 {
					f := file(t, p, bytes.NewReader(noise(uint64(i), i*1777)))
					f.Xattrs = map[string]string{"user.n": fmt.Sprint(i % 7), "user.m": "x"}
					root.Set(fmt.Sprint(i), f)
				}
			})
		b, err := os.ReadFile(img)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !bytes.Equal(build(1), build(7)) {
		t.Error("7 workers: got another image than with 1")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestFullDisk(t *testing.T) {
	p := newCompressor(t, squashfs.Options{}).NewPacker(fullDisk{})
	defer p.Abort()
	if err := p.Close(squashfs.NewDir(0o755, 0, 0, 1), nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
	w, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	img, err := w.Close(squashfs.NewDir(0o755, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := img.WriteTo(fullDisk{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
}

// The content of equal files is stored once. Files that differ in the last byte, in a hole or in
// the length are not equal.
func TestEqualFilesAreStoredOnce(t *testing.T) {
	const block = 128 << 10
	large := noise(1, 5*block+100)
	other := bytes.Clone(large)
	other[len(other)-1]++
	holes := append(append(noise(2, block), make([]byte, 2*block)...), noise(3, block)...)
	contents := map[string][]byte{
		"a": large, "b": other, "c": large, "d": holes, "e": large[:5*block],
		"f": append(bytes.Clone(holes), make([]byte, block)...),
		"g": holes, "h": []byte("short"), "i": []byte("short"), "j": []byte("shorT"), "k": make([]byte, 3*block),
		"l": make([]byte, 3*block),
	}
	size := func(names ...string) (int64, string) {
		img := image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
			for _, n := range names {
				root.Set(n, file(t, p, bytes.NewReader(contents[n])))
			}
		})
		fi, err := os.Stat(img)
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size(), img
	}
	all, img := size("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
	once, _ := size("a", "b", "d", "e", "f", "h", "j", "k")
	if all > once+4096 {
		t.Errorf("got %d bytes with copies, want about %d as without", all, once)
	}
	dir := fixtures.Mount(t, img)
	unpacked := filepath.Join(t.TempDir(), "x")
	fixtures.Run(t, "unsquashfs", "-quiet", "-no-progress", "-d", unpacked, img)
	for name, want := range contents {
		for _, root := range []string{dir, unpacked} {
			if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s in %s: got other content, %v", name, root, err)
			}
		}
	}
}
