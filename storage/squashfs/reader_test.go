package squashfs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/squashfs"
)

func open(t *testing.T, image string) *squashfs.Reader {
	t.Helper()
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, err := squashfs.OpenImage(f, fi.Size())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// kinds fills a root with every kind of file.
func kinds(t *testing.T) func(p *squashfs.Packer, root *squashfs.Inode) {
	return func(p *squashfs.Packer, root *squashfs.Inode) {
		root.Xattrs = map[string]string{"user.a": "b"}
		long := file(t, p, bytes.NewReader(noise(1, 300<<10)))
		long.Xattrs = map[string]string{"user.a": "b", "security.b": strings.Repeat("\x01", 20), "trusted.empty": ""}
		sub := squashfs.NewDir(0o1750, 3, 70000, 77)
		root.Set("sub", sub)
		sub.Set("long", long)
		root.Set("hard-link", long)
		for name, content := range map[string]string{
			"empty": "", "short": "short", "zeros": strings.Repeat("\x00", 200<<10), "text": strings.Repeat("text ", 100_000),
		} {
			sub.Set(name, file(t, p, strings.NewReader(content)))
		}
		sub.Set("link", &squashfs.Inode{Mode: syscall.S_IFLNK | 0o777, Target: "../hard-link", UID: 5})
		sub.Set("disk", &squashfs.Inode{
			Mode: syscall.S_IFBLK | 0o660, Major: 259, Minor: 70000, Xattrs: map[string]string{"trusted.a": "b"},
		})
		sub.Set("whiteout", &squashfs.Inode{Mode: syscall.S_IFCHR})
		sub.Set("pipe", &squashfs.Inode{Mode: syscall.S_IFIFO | 0o4600})
		sub.Set("socket", &squashfs.Inode{Mode: syscall.S_IFSOCK | 0o600})
	}
}

// folder makes one of files around the size of a block, of shared and of long
// attributes, with hard links, and with a directory so large that it has an index.
func folder(t *testing.T) string {
	t.Helper()
	fixtures.NeedRoot(t)
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(dir+"/many/deep/er", 0o2755)))
	for n, size := range []int{0, 1, 4095, 4096, 4097, 131_071, 131_072, 131_073, 500_000} {
		name := fmt.Sprintf("%s/%d", dir, size)
		must(os.WriteFile(name, noise(uint64(n%3), size), 0o640))
		must(os.Chown(name, n*1000, 7))
		must(syscall.Setxattr(name, "user.a", []byte(strings.Repeat("x", n*300)), 0))
		must(syscall.Setxattr(name, "user.same", []byte(strings.Repeat("y", 900)), 0))
	}
	must(errors.Join(os.Symlink(strings.Repeat("x/", 1000), dir+"/link"), os.Link(dir+"/500000", dir+"/many/linked")))
	must(os.WriteFile(dir+"/holes", append(make([]byte, 300_000), noise(9, 150_000)...), 0o600))
	for n := range 1000 {
		must(os.WriteFile(fmt.Sprintf("%s/many/%d-%s", dir, n, strings.Repeat("name", 30)), []byte(fmt.Sprint("content ", n)),
			0o644))
	}
	return dir
}

// The kernel is the judge: of images of all writers, a Reader tells the same.
func TestReaderReadsWhatTheKernelReads(t *testing.T) {
	dir := folder(t)
	images := map[string]string{}
	for _, compression := range []squashfs.Compression{squashfs.Zstd, squashfs.Gzip, squashfs.None} {
		images["pinbox "+string(compression)] = image(t, squashfs.Options{Compression: compression}, kinds(t))
	}
	for name, args := range map[string]string{
		"zstd": "-comp zstd", "gzip": "-comp gzip -b 4096", "large blocks": "-comp zstd -b 1M",
		"no fragments":     "-comp gzip -no-fragments",
		"always fragments": "-comp zstd -always-use-fragments", "not packed": "-comp gzip -noI -noId -noD -noF -noX",
		"not for export":     "-comp gzip -no-exports -no-duplicates",
		"without attributes": "-comp zstd -no-xattrs",
	} {
		images[name] = filepath.Join(t.TempDir(), "image.squashfs")
		fixtures.Run(t, "mksquashfs", append([]string{dir, images[name], "-quiet", "-no-progress"},
			strings.Fields(args)...)...)
	}
	images["tar2sqfs"] = filepath.Join(t.TempDir(), "image.squashfs")
	fixtures.Run(t, "sh", "-c", `tar --xattrs -C "$1" -c . | tar2sqfs --quiet --compressor zstd "$2"`, "sh", dir,
		images["tar2sqfs"])
	for name, image := range images {
		t.Run(name, func(t *testing.T) {
			r := open(t, image)
			got, err := squashfs.TreeOf(r, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			mounted := fixtures.Mount(t, image)
			if name == "without attributes" { // of such an image the kernel fails to list them
				if info, err := r.Stat("500000"); err != nil || info.Size() != 500_000 {
					t.Error(info, err)
				}
				return
			}
			if diff := cmp.Diff(fixtures.Tree(t, mounted), got); diff != "" {
				t.Errorf("(-kernel +Reader):\n%.3000s", diff)
			}
			compareInfos(t, r, os.DirFS(mounted))
		})
	}
}

// compareInfos compares what io/fs says of files.
func compareInfos(t *testing.T, got, want fs.FS) {
	t.Helper()
	describe := func(fsys fs.FS) []string {
		var lines []string
		err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			size := info.Size()
			if info.IsDir() {
				size = 0
			}
			lines = append(lines, fmt.Sprintln(name, info.Name(), info.Mode(), d.Type(), size, info.ModTime().Unix()))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return lines
	}
	if diff := cmp.Diff(describe(want), describe(got)); diff != "" {
		t.Errorf("(-kernel +Reader):\n%.3000s", diff)
	}
}

func TestReaderIsAFileSystem(t *testing.T) {
	r := open(t, image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		sub := squashfs.NewDir(0o755, 0, 0, 1)
		root.Set("sub", sub)
		for i := range 200 {
			sub.Set(fmt.Sprint(i), file(t, p, bytes.NewReader(noise(1, i*2000))))
		}
		root.Set("link", &squashfs.Inode{Mode: syscall.S_IFLNK | 0o777, Target: "sub/1"})
		many := squashfs.NewDir(0o755, 0, 0, 1) // so large that it gets an index
		root.Set("many", many)
		for i := range 300 {
			many.Set(fmt.Sprintf("%040d", i), file(t, p, strings.NewReader("")))
		}
	}))
	if err := fstest.TestFS(r, "sub/0", "sub/199", fmt.Sprintf("many/%040d", 299)); err != nil {
		t.Error(err)
	}
	if target, err := r.ReadLink("link"); target != "sub/1" || err != nil {
		t.Errorf("link to %q, %v", target, err)
	}
	for name, want := range map[string]error{
		"sub/none": fs.ErrNotExist, "many/none": fs.ErrNotExist, "sub/1/x": syscall.ENOTDIR, "../x": fs.ErrInvalid, "link": fs.ErrInvalid,
		"sub": syscall.EISDIR,
	} {
		if _, err := r.ReadFile(name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := r.Options(); got.BlockSize != 128<<10 || got.Compression != squashfs.Zstd ||
		!got.ModTime.Equal(time.Unix(0, 0)) {
		t.Errorf("%+v", got)
	}
}

// A sparse file of any size takes a few bytes in an image.
func TestReaderDoesNotReadAFileOfAnySizeAtOnce(t *testing.T) {
	r := open(t, image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		root.Set("zeros", file(t, p, io.LimitReader(zeros{}, 1<<30)))
	}))
	if _, err := r.ReadFile("zeros"); !errors.Is(err, syscall.EFBIG) {
		t.Error(err)
	}
}

func TestWhatIsNoImageIsRefused(t *testing.T) {
	whole, err := os.ReadFile(image(t, squashfs.Options{}, kinds(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 10, 95, 96, 5000, len(whole) - 4096} {
		if _, err := squashfs.OpenImage(bytes.NewReader(whole[:size]), int64(size)); !errors.Is(err, squashfs.ErrDamaged) {
			t.Errorf("%d bytes of %d: %v", size, len(whole), err)
		}
	}
	if _, err := squashfs.OpenImage(bytes.NewReader(whole), int64(len(whole))); err != nil {
		t.Error(err)
	}
}

// Tables that are not compressed show each change to who reads them.
func TestTablesOfAnyBytes(t *testing.T) {
	whole, err := os.ReadFile(image(t, squashfs.Options{Compression: squashfs.None, BlockSize: 4096},
		func(p *squashfs.Packer, root *squashfs.Inode) {
			sub := squashfs.NewDir(0o755, 0, 0, 1)
			root.Set("sub", sub)
			for n, size := range []int{0, 10, 9000} {
				f := file(t, p, bytes.NewReader(noise(1, size)))
				f.Xattrs = map[string]string{"user.a": "b"}
				root.Set(fmt.Sprint(n), f)
				sub.Set(fmt.Sprint("again", n), f)
			}
			sub.Set("link", &squashfs.Inode{Mode: syscall.S_IFLNK | 0o777, Target: "../0"})
			sub.Set("disk", &squashfs.Inode{Mode: syscall.S_IFBLK | 0o660, Major: 259})
		}))
	if err != nil {
		t.Fatal(err)
	}
	tables, found := int(binary.LittleEndian.Uint64(whole[64:])), 0
	for at := range len(whole) {
		if at >= 96 && at < tables {
			continue // data
		}
		for _, value := range []byte{1, 0x7f, 0xff} {
			broken := bytes.Clone(whole)
			broken[at] ^= value
			if readAll(t, broken) != nil {
				found++
			}
		}
	}
	if found < 400 {
		t.Errorf("%d changes were found: this test shows little", found)
	}
}

// A folder that leads back to the root would have no end.
func TestFolderThatListsTheRootIsRefused(t *testing.T) {
	whole, err := os.ReadFile(image(t, squashfs.Options{Compression: squashfs.None},
		func(_ *squashfs.Packer, root *squashfs.Inode) {
			sub := squashfs.NewDir(0o755, 0, 0, 1)
			root.Set("sub", sub)
			sub.Set("below", squashfs.NewDir(0o755, 0, 0, 1))
		}))
	if err != nil {
		t.Fatal(err)
	}
	if err := readAll(t, whole); err != nil {
		t.Fatal(err)
	}
	// The listing of sub stands first in the table: behind the block's head of 2 bytes
	// and its own of 12 there is the place of "below".
	root, listings := whole[32:34], binary.LittleEndian.Uint64(whole[72:])
	copy(whole[listings+14:], root)
	if err := readAll(t, whole); !errors.Is(err, squashfs.ErrDamaged) {
		t.Error(err)
	}
}

// readAll reads all of an image, which fails as it should if it does.
func readAll(t *testing.T, image []byte) error {
	t.Helper()
	r, err := squashfs.OpenImage(bytes.NewReader(image), int64(len(image)))
	if err == nil {
		_, err = squashfs.TreeOf(r, 1000)
		if _, transferred := transfer(r, "."); transferred != nil && !errors.Is(transferred, squashfs.ErrDamaged) {
			t.Error(transferred)
		}
	}
	if err != nil && !errors.Is(err, squashfs.ErrDamaged) && !errors.Is(err, squashfs.ErrMost) {
		t.Error(err)
	}
	return err
}

// Whatever the bytes of an image are, what its reader fails by is ErrDamaged.
func FuzzReader(f *testing.F) {
	for seed, compression := range []squashfs.Compression{squashfs.Zstd, squashfs.Gzip, squashfs.None} {
		f.Add(uint8(seed), uint32(0), []byte{})
		f.Add(uint8(seed), uint32(100), []byte(compression))
	}
	for at := range uint32(96) {
		f.Add(uint8(at), at, []byte{0xff})
		f.Add(uint8(2), at, []byte{0, 0, 1})
	}
	var images [3][]byte
	f.Fuzz(func(t *testing.T, which uint8, at uint32, patch []byte) {
		n := which % 3
		if images[n] == nil {
			compression := []squashfs.Compression{squashfs.Zstd, squashfs.Gzip, squashfs.None}[n]
			content, err := os.ReadFile(image(t, squashfs.Options{Compression: compression, BlockSize: 4096}, kinds(t)))
			if err != nil {
				t.Fatal(err)
			}
			images[n] = content
		}
		broken := bytes.Clone(images[n])
		// Superblock and tables, rather than data, are what is worth a change.
		copy(broken[int(at)%len(broken):], patch)
		copy(broken[len(broken)-1-int(at)%min(len(broken), 8192):], patch)
		_ = readAll(t, broken)
	})
}
