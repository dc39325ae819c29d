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

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/fault"
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

// allKinds returns a function that adds a file of each kind to a root.
func allKinds(t *testing.T) func(p *squashfs.Packer, root *squashfs.Inode) {
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

// makeFolder makes a folder with files of sizes around the block size, long and equal attributes,
// hard links, and a directory that is large enough for an index.
func makeFolder(t *testing.T) string {
	t.Helper()
	fixtures.NeedRoot(t)
	dir := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(dir+"/many/deep/er", 0o2755)))
	for n, size := range []int{0, 1, 4095, 4096, 4097, 131_071, 131_072, 131_073, 500_000} {
		name := fmt.Sprintf("%s/%d", dir, size)
		check(os.WriteFile(name, noise(uint64(n%3), size), 0o640))
		check(os.Chown(name, n*1000, 7))
		check(syscall.Setxattr(name, "user.a", []byte(strings.Repeat("x", n*300)), 0))
		check(syscall.Setxattr(name, "user.same", []byte(strings.Repeat("y", 900)), 0))
	}
	check(errors.Join(os.Symlink(strings.Repeat("x/", 1000), dir+"/link"), os.Link(dir+"/500000", dir+"/many/linked")))
	check(os.WriteFile(dir+"/holes", append(make([]byte, 300_000), noise(9, 150_000)...), 0o600))
	for n := range 1000 {
		check(os.WriteFile(fmt.Sprintf("%s/many/%d-%s", dir, n, strings.Repeat("name", 30)), []byte(fmt.Sprint("content ", n)),
			0o644))
	}
	return dir
}

// A Reader reads the same as the kernel from images of this package, mksquashfs and tar2sqfs.
func TestReaderEqualsKernel(t *testing.T) {
	dir := makeFolder(t)
	images := map[string]string{}
	for _, compression := range []squashfs.Compression{squashfs.Zstd, squashfs.Gzip, squashfs.None} {
		images["pinbox "+string(compression)] = image(t, squashfs.Options{Compression: compression}, allKinds(t))
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
			if name == "without attributes" { // the kernel fails to list the attributes of such an image
				if info, err := r.Stat("500000"); err != nil || info.Size() != 500_000 {
					t.Errorf("got %v, %v, want 500,000 bytes", info, err)
				}
				return
			}
			if diff := cmp.Diff(fixtures.Tree(t, mounted), got); diff != "" {
				t.Errorf("(-kernel +Reader):\n%.3000s", diff)
			}
			compareInfos(t, r, os.DirFS(mounted))
			compareAttributes(t, r, os.DirFS(mounted))
		})
	}
}

// compareAttributes compares owners and device numbers of all files.
func compareAttributes(t *testing.T, got *squashfs.Reader, want fs.FS) {
	t.Helper()
	err := fs.WalkDir(want, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		a, err := got.Attributes(name)
		if err != nil || a.UID != st.Uid || a.GID != st.Gid || a.Major != unix.Major(st.Rdev) || a.Minor != unix.Minor(st.Rdev) {
			t.Errorf("%s: got %+v, %v; want %+v", name, a, err, st)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// compareInfos compares the fs.FileInfo of all files.
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

func TestReaderFS(t *testing.T) {
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
	if _, err := r.Attributes("sub/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got the attributes of no file, %v; want %v", err, fs.ErrNotExist)
	}
	if target, err := r.ReadLink("link"); target != "sub/1" || err != nil {
		t.Errorf("got a link to %q, %v, want sub/1", target, err)
	}
	for name, want := range map[string]error{
		"sub/none": fs.ErrNotExist, "many/none": fs.ErrNotExist, "sub/1/x": syscall.ENOTDIR, "../x": fs.ErrInvalid, "link": fs.ErrInvalid,
		"sub": syscall.EISDIR,
	} {
		if _, err := r.ReadFile(name); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	if got := r.Options(); got.BlockSize != 128<<10 || got.Compression != squashfs.Zstd ||
		!got.ModTime.Equal(time.Unix(0, 0)) {
		t.Errorf("got the options %+v, want zstd, blocks of 128 KiB and time 0", got)
	}
}

// ReadFile has a limit, since a sparse file of any size takes a few bytes in an image.
func TestReadFileLimit(t *testing.T) {
	r := open(t, image(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		root.Set("zeros", file(t, p, io.LimitReader(zeros{}, 1<<30)))
	}))
	if _, err := r.ReadFile("zeros"); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("got %v, want %v", err, syscall.EFBIG)
	}
}

func TestTruncatedImage(t *testing.T) {
	intact, err := os.ReadFile(image(t, squashfs.Options{}, allKinds(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 10, 95, 96, 5000, len(intact) - 4096} {
		if _, err := squashfs.OpenImage(bytes.NewReader(intact[:size]), int64(size)); !errors.Is(err, squashfs.ErrDamaged) {
			t.Errorf("%d bytes of %d: got %v, want %v", size, len(intact), err, squashfs.ErrDamaged)
		} else if hint := fault.Of(err).Hint; !strings.HasPrefix(hint, "if it was copied, copy it again") {
			t.Errorf("%d bytes of %d: got the hint %q, want to copy it again", size, len(intact), hint)
		}
	}
	if _, err := squashfs.OpenImage(bytes.NewReader(intact), int64(len(intact))); err != nil {
		t.Errorf("intact: got %v, want no error", err)
	}
}

// Tables with any bytes are read or are an error. They are not compressed, so that the reader sees
// each change.
func TestDamagedTables(t *testing.T) {
	intact, err := os.ReadFile(image(t, squashfs.Options{Compression: squashfs.None, BlockSize: 4096},
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
	tables, end, detected := int(binary.LittleEndian.Uint64(intact[64:])), int(binary.LittleEndian.Uint64(intact[40:])), 0
	for at := range end { // after it is padding
		if at >= 96 && at < tables {
			continue // data
		}
		for _, value := range []byte{1, 0x7f, 0xff} {
			damaged := bytes.Clone(intact)
			damaged[at] ^= value
			if readAll(t, damaged) != nil {
				detected++
			}
		}
	}
	if detected < 400 {
		t.Errorf("got %d changes detected, want at least 400", detected)
	}
}

// A directory that contains the root directory is refused, since reading it would not end.
func TestDirectoryLoop(t *testing.T) {
	intact, err := os.ReadFile(image(t, squashfs.Options{Compression: squashfs.None},
		func(_ *squashfs.Packer, root *squashfs.Inode) {
			sub := squashfs.NewDir(0o755, 0, 0, 1)
			root.Set("sub", sub)
			sub.Set("below", squashfs.NewDir(0o755, 0, 0, 1))
		}))
	if err != nil {
		t.Fatal(err)
	}
	if err := readAll(t, intact); err != nil {
		t.Fatal(err)
	}
	// The listing of sub is the first one in the table: after the header of the block, of 2 bytes,
	// and its own of 12, it has the inode of "below".
	root, listings := intact[32:34], binary.LittleEndian.Uint64(intact[72:])
	copy(intact[listings+14:], root)
	if err := readAll(t, intact); !errors.Is(err, squashfs.ErrDamaged) {
		t.Errorf("got %v, want %v", err, squashfs.ErrDamaged)
	}
}

// readAll reads and copies an image completely, and checks that each error is ErrDamaged or
// ErrTooMany.
func readAll(t *testing.T, image []byte) error {
	t.Helper()
	r, err := squashfs.OpenImage(bytes.NewReader(image), int64(len(image)))
	if err == nil {
		_, err = squashfs.TreeOf(r, 1000)
		nothing := func(squashfs.Entry) error { return nil }
		if walked := squashfs.Walk(t.Context(), r, ".", nothing); walked != nil && !errors.Is(walked, squashfs.ErrDamaged) {
			t.Errorf("walk: got %v, want %v", walked, squashfs.ErrDamaged)
		}
		if _, transferred := transfer(r, "."); transferred != nil && !errors.Is(transferred, squashfs.ErrDamaged) {
			t.Errorf("copy: got %v, want %v", transferred, squashfs.ErrDamaged)
		}
	}
	if err != nil && !errors.Is(err, squashfs.ErrDamaged) && !errors.Is(err, squashfs.ErrTooMany) {
		t.Errorf("got %v, want %v or %v", err, squashfs.ErrDamaged, squashfs.ErrTooMany)
	}
	return err
}

// An image with any bytes is read or is ErrDamaged.
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
			content, err := os.ReadFile(image(t, squashfs.Options{Compression: compression, BlockSize: 4096}, allKinds(t)))
			if err != nil {
				t.Fatal(err)
			}
			images[n] = content
		}
		damaged := bytes.Clone(images[n])
		// Most changes are in the superblock and the tables.
		copy(damaged[int(at)%len(damaged):], patch)
		copy(damaged[len(damaged)-1-int(at)%min(len(damaged), 8192):], patch)
		_ = readAll(t, damaged)
	})
}
