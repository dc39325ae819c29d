package squashfs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// smallPack makes a pack with each kind of file and content.
func smallPack(t *testing.T) []byte {
	t.Helper()
	return pack(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
		long := file(t, p, bytes.NewReader(noise(1, 300<<10)))
		long.Xattrs = map[string]string{"user.a": "b"}
		root.Set("long", long)
		root.Set("again", long)
		root.Set("short", file(t, p, strings.NewReader("short")))
		root.Set("zeros", file(t, p, bytes.NewReader(make([]byte, 200<<10))))
		root.Set("link", &squashfs.Inode{Mode: syscall.S_IFLNK | 0o777, Target: "long"})
		root.Set("dev", &squashfs.Inode{Mode: syscall.S_IFCHR | 0o600, Major: 1, Minor: 300, UID: 70000, ModTime: -5})
	})
}

// Content that several packs have is in the image once.
func TestPacksShareContents(t *testing.T) {
	var packs [][]byte
	for _, name := range []string{"a", "b", "c"} {
		packs = append(packs, pack(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
			root.Set("own", file(t, p, strings.NewReader(name)))
			root.Set("long", file(t, p, bytes.NewReader(noise(1, 700_000))))
			root.Set("middle", file(t, p, bytes.NewReader(noise(3, 100_000))))
			root.Set("tail", file(t, p, bytes.NewReader(noise(2, 1000))))
		}))
	}
	img := writePacks(t, squashfs.Options{}, packs...)
	fi, err := os.Stat(img)
	if err != nil || fi.Size() > 450_000 {
		t.Errorf("got %v, %v, want at most 450,000 bytes", fi.Size(), err)
	}
	dir := fixtures.Mount(t, img)
	for i, tree := range []string{"0", "1", "."} {
		for name, want := range map[string]string{
			"own": string(rune('a' + i)), "long": string(noise(1, 700_000)),
			"middle": string(noise(3, 100_000)), "tail": string(noise(2, 1000)),
		} {
			if got, err := os.ReadFile(filepath.Join(dir, tree, name)); err != nil || string(got) != want {
				t.Errorf("%s/%s: got other content, %v", tree, name, err)
			}
		}
	}
}

// A change that a CRC-32C does not detect is detected, when an image is written and by Check.
func TestForgedBlock(t *testing.T) {
	pack := smallPack(t)
	// The generator polynomial has the CRC 0: x^32 first, and the lowest bit of each byte first.
	const at = 1000 // within the blocks of the first file
	check := crc32.Checksum(pack[at:at+5], crc32.MakeTable(crc32.Castagnoli))
	for bit := range 33 {
		if uint64(0x11EDC6F41)>>(32-bit)&1 == 1 {
			pack[at+bit/8] ^= 1 << (bit % 8)
		}
	}
	if got := crc32.Checksum(pack[at:at+5], crc32.MakeTable(crc32.Castagnoli)); got != check {
		t.Fatalf("got CRC %x, want the same as before, %x", got, check)
	}
	compressor := newCompressor(t, squashfs.Options{})
	if err := writeImage(t, compressor, pack); !errors.Is(err, squashfs.ErrDamaged) {
		t.Errorf("image: got %v, want %v", err, squashfs.ErrDamaged)
	}
	opened, err := compressor.OpenPack(source{bytes.NewReader(pack)}, int64(len(pack)))
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Check(); !errors.Is(err, squashfs.ErrDamaged) {
		t.Errorf("Check: got %v, want %v", err, squashfs.ErrDamaged)
	}
}

// A change of any byte of a pack is detected.
func TestDamagedPack(t *testing.T) {
	intact := smallPack(t)
	compressor := newCompressor(t, squashfs.Options{})
	for at := 0; at < len(intact); at += 1 + at/50 {
		damaged := bytes.Clone(intact)
		damaged[at] ^= 4
		err := writeImage(t, compressor, damaged)
		if !errors.Is(err, squashfs.ErrDamaged) {
			t.Errorf("byte %d of %d changed: got %v, want %v", at, len(intact), err, squashfs.ErrDamaged)
		}
	}
	for _, size := range []int{0, 10, 100, len(intact) / 2, len(intact) - 1} {
		if err := writeImage(t, compressor, intact[:size]); !errors.Is(err, squashfs.ErrDamaged) {
			t.Errorf("%d bytes of %d: got %v, want %v", size, len(intact), err, squashfs.ErrDamaged)
		}
	}
	if err := writeImage(t, compressor, intact); err != nil {
		t.Errorf("intact: got %v, want no error", err)
	}
}

// writeImage writes an image of a pack, and checks that Check and WriteTo agree on whether the pack is damaged.
func writeImage(t *testing.T, compressor *squashfs.Compressor, content []byte) error {
	t.Helper()
	src := source{bytes.NewReader(content)}
	p, err := compressor.OpenPack(src, int64(len(content)))
	if err != nil {
		return err
	}
	checked := p.Check()
	w, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		return err
	}
	w.AddPack(p)
	img, err := w.Close(p.Root)
	if err != nil {
		return err
	}
	_, err = img.WriteTo(io.Discard)
	if (checked == nil) != (err == nil) {
		t.Errorf("Check: got %v, WriteTo: got %v, want errors of both or of none", checked, err)
	}
	if damage := (&squashfs.Damage{}); err != nil && (!errors.As(err, &damage) || damage.File != squashfs.File(src)) {
		t.Errorf("WriteTo: got %v, want a *Damage with the pack's file", err)
	}
	return err
}

// closer is a pack in memory that counts calls of Close.
type closer struct {
	source
	closed *int
}

func (c closer) Close() error { *c.closed++; return nil }

func TestPacksAreClosed(t *testing.T) {
	content := smallPack(t)
	compressor := newCompressor(t, squashfs.Options{})
	for name, end := range map[string]func(w *squashfs.Writer, root *squashfs.Inode) error{
		"abort": func(w *squashfs.Writer, _ *squashfs.Inode) error { w.Abort(); return nil },
		"write": func(w *squashfs.Writer, root *squashfs.Inode) error {
			img, err := w.Close(root)
			if err == nil {
				_, err = img.WriteTo(io.Discard)
			}
			return err
		},
		"full disk": func(w *squashfs.Writer, root *squashfs.Inode) error {
			img, err := w.Close(root)
			if _, full := img.WriteTo(fullDisk{}); full == nil {
				return errors.New("WriteTo on a full disk: got no error")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			closed := 0
			p, err := compressor.OpenPack(closer{source{bytes.NewReader(content)}, &closed}, int64(len(content)))
			if err != nil {
				t.Fatal(err)
			}
			w, err := squashfs.NewWriter(squashfs.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w.AddPack(p)
			if err := end(w, p.Root); err != nil || closed == 0 {
				t.Errorf("got %d calls of Close, %v, want at least one", closed, err)
			}
		})
	}
}

// Other bytes of packs need another PackVersion: versions of pinbox share a cache, and packs with
// other bytes make another image. The bytes change with this package and with the libraries that
// compress.
func TestPackVersion(t *testing.T) {
	for compression, want := range map[squashfs.Compression]string{
		squashfs.Zstd: "efd2b7e8bbf40c79", squashfs.Gzip: "93907ceb95e10602", squashfs.None: "9a8b43bac14ef9d4",
	} {
		t.Run(string(compression), func(t *testing.T) {
			content := pack(t, squashfs.Options{Compression: compression}, func(p *squashfs.Packer, root *squashfs.Inode) {
				for i, n := range []int{0, 1, 5000, 100_000, 140_000, 1 << 20} {
					root.Set(string(rune('a'+i)), file(t, p, bytes.NewReader(noise(uint64(i), n))))
				}
			})
			sum := sha256.Sum256(content)
			if got := hex.EncodeToString(sum[:8]); got != want {
				t.Errorf("a pack of version %s: got the sum %s, want %s; raise PackVersion, and write the new sum here",
					squashfs.PackVersion, got, want)
			}
		})
	}
}

// An index with any bytes is read or is an error; it does not cause a panic.
func TestDamagedIndex(t *testing.T) {
	index, err := squashfs.IndexOf(smallPack(t))
	if err != nil {
		t.Fatal(err)
	}
	for at := range index {
		for _, value := range []byte{1, 0x7f, 0x80, 0xff} {
			damaged := bytes.Clone(index)
			damaged[at] ^= value
			squashfs.DecodeIndex(damaged)
		}
		squashfs.DecodeIndex(index[:at])
	}
}

// A pack of another version is refused, even if its index is intact.
func TestPackOfAnotherVersion(t *testing.T) {
	good := smallPack(t)
	newer := bytes.Replace(good, []byte("pinbox pack v5\n"), []byte("pinbox pack v6\n"), 1)
	compressor, err := squashfs.NewCompressor(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	for name, c := range map[string]struct {
		pack []byte
		want error
	}{"this version": {good, nil}, "a newer one": {newer, squashfs.ErrDamaged}} {
		t.Run(name, func(t *testing.T) {
			if _, err := compressor.OpenPack(source{bytes.NewReader(c.pack)}, int64(len(c.pack))); !errors.Is(err, c.want) {
				t.Errorf("got error %v, want %v", err, c.want)
			}
		})
	}
}
