package squashfs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/codec"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// small makes a pack of all that a pack can hold.
func small(t *testing.T) []byte {
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

// What several packs have is in the image once, with all that is read of it.
func TestPacksShareWhatIsEqual(t *testing.T) {
	var packs [][]byte
	for _, name := range []string{"a", "b", "c"} {
		packs = append(packs, pack(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
			root.Set("own", file(t, p, strings.NewReader(name)))
			root.Set("long", file(t, p, bytes.NewReader(noise(1, 700_000))))
			root.Set("tail", file(t, p, bytes.NewReader(noise(2, 1000))))
		}))
	}
	img := layOut(t, squashfs.Options{}, packs...)
	fi, err := os.Stat(img)
	if err != nil || fi.Size() > 600_000 {
		t.Errorf("%v, %v", fi.Size(), err)
	}
	dir := fixtures.Mount(t, img)
	for i, at := range []string{"0", "1", "."} {
		for name, want := range map[string]string{
			"own": string(rune('a' + i)), "long": string(noise(1, 700_000)), "tail": string(noise(2, 1000)),
		} {
			if got, err := os.ReadFile(filepath.Join(dir, at, name)); err != nil || string(got) != want {
				t.Errorf("%s/%s reads back differently (%v)", at, name, err)
			}
		}
	}
}

// A pack that was kept may have changed: no byte of it goes unnoticed.
func TestDamageOfAPackIsFound(t *testing.T) {
	whole := small(t)
	compressor := newCompressor(t, squashfs.Options{})
	for at := 0; at < len(whole); at += 1 + at/50 {
		broken := bytes.Clone(whole)
		broken[at] ^= 4
		err := read(compressor, broken)
		if !errors.Is(err, squashfs.ErrDamaged) {
			t.Errorf("byte %d of %d: %v", at, len(whole), err)
		}
	}
	for _, size := range []int{0, 10, 100, len(whole) / 2, len(whole) - 1} {
		if err := read(compressor, whole[:size]); !errors.Is(err, squashfs.ErrDamaged) {
			t.Errorf("%d bytes of %d: %v", size, len(whole), err)
		}
	}
	if err := read(compressor, whole); err != nil {
		t.Error(err)
	}
}

// read makes an image of a pack.
func read(compressor *squashfs.Compressor, content []byte) error {
	src := source{bytes.NewReader(content)}
	p, err := compressor.OpenPack(src, int64(len(content)))
	if err != nil {
		return err
	}
	checked := p.Check()
	if unpacked := unpackAll(compressor, p.Root); (checked == nil) != (unpacked == nil) {
		return fmt.Errorf("Check says %w, Unpacker %w", checked, unpacked)
	}
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
		return errors.New("Check and WriteTo disagree")
	}
	if damage := (&squashfs.Damage{}); err != nil && (!errors.As(err, &damage) || damage.File != squashfs.File(src)) {
		return errors.New("WriteTo does not say which pack it was")
	}
	return err
}

type closer struct {
	source
	closed *int
}

func (c closer) Close() error { *c.closed++; return nil }

func TestPacksAreClosed(t *testing.T) {
	content := small(t)
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
			if _, full := img.WriteTo(brokenDisk{}); full == nil {
				return errors.New("the disk was not full")
			}
			return err
		},
	} {
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
			t.Errorf("%s: closed %d times, %v", name, closed, err)
		}
	}
}

// Packs are kept from one version of pinbox to the next. Where their bytes change,
// by a change here or of a library that compresses, those that were kept would make
// another image than new ones: PackVersion says that they are of no use.
func TestBytesOfPacksBelongToTheirVersion(t *testing.T) {
	for compression, want := range map[squashfs.Compression]string{
		squashfs.Zstd: "5ee2bdbba8c66bbb", squashfs.Gzip: "cb1ff620f1f520ac", squashfs.None: "e44f7953124e5870",
	} {
		if compression == squashfs.Zstd && strings.HasPrefix(codec.ZstdID(), "zstd-native-") {
			continue // libzstd's version is in the form
		}
		content := pack(t, squashfs.Options{Compression: compression}, func(p *squashfs.Packer, root *squashfs.Inode) {
			for i, n := range []int{0, 1, 5000, 100_000, 140_000, 1 << 20} {
				root.Set(string(rune('a'+i)), file(t, p, bytes.NewReader(noise(uint64(i), n))))
			}
		})
		sum := sha256.Sum256(content)
		if got := hex.EncodeToString(sum[:8]); got != want {
			t.Errorf("%s: the sum of a pack of version %s is now %s, was %s: raise PackVersion, and put the new sum here",
				compression, squashfs.PackVersion, got, want)
		}
	}
}

// No byte of an index can make its reader fail in another way than by an error.
func TestIndexOfAnyBytes(t *testing.T) {
	index, err := squashfs.IndexOf(small(t))
	if err != nil {
		t.Fatal(err)
	}
	for at := range index {
		for _, value := range []byte{1, 0x7f, 0x80, 0xff} {
			broken := bytes.Clone(index)
			broken[at] ^= value
			squashfs.DecodeIndex(broken)
		}
		squashfs.DecodeIndex(index[:at])
	}
}

// A pack of another version is none that this one can read, however good its index is.
func TestPackOfAnotherVersion(t *testing.T) {
	good := small(t)
	newer := bytes.Replace(good, []byte("pinbox pack v1\n"), []byte("pinbox pack v2\n"), 1)
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
