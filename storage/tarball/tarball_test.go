package tarball_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/tarball"
)

// file is a pack in a file.
type file struct {
	*os.File
	closed bool
}

func (f *file) Close() error {
	f.closed = true
	return f.File.Close()
}

// packed makes contents of texts, and the pack that has them.
func packed(t *testing.T, texts ...string) (*squashfs.Compressor, *squashfs.Pack, []*squashfs.Content) {
	t.Helper()
	compressor, err := squashfs.NewCompressor(squashfs.Options{Compression: squashfs.None})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(compressor.Close)
	f, err := os.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	packer := compressor.NewPacker(f)
	var contents []*squashfs.Content
	for _, text := range texts {
		content, err := packer.Content(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, content)
	}
	pack, err := packer.Reopen(&file{File: f})
	if err != nil {
		t.Fatal(err)
	}
	return compressor, pack, contents
}

const modTime = 1_700_000_000

func inode(mode uint32) *squashfs.Inode { return &squashfs.Inode{Mode: mode, ModTime: modTime} }

// entries lists a tar stream: for each entry its kind, name, mode, owner, target or device, attributes and
// content.
func entries(t *testing.T, stream io.Reader) (all []string) {
	t.Helper()
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != modTime {
			t.Errorf("%s: got the time %v, want %d", h.Name, h.ModTime, modTime)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%c %s %o %d:%d", h.Typeflag, h.Name, h.Mode, h.Uid, h.Gid)
		if h.Linkname != "" {
			line += " -> " + h.Linkname
		}
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			line += fmt.Sprintf(" %d,%d", h.Devmajor, h.Devminor)
		}
		for _, name := range slices.Sorted(maps.Keys(h.PAXRecords)) {
			if strings.HasPrefix(name, "SCHILY.xattr.") {
				line += fmt.Sprintf(" %s=%q", name, h.PAXRecords[name])
			}
		}
		all = append(all, strings.TrimSpace(line+" "+string(content)))
	}
}

// everyKind makes a tree with a layer of every kind of file.
func everyKind(contents []*squashfs.Content) (root, layer *squashfs.Inode) {
	root, overlay := squashfs.NewDir(0o755, 0, 0, modTime), squashfs.NewDir(0o700, 0, 0, modTime)
	root.Set("overlay", overlay)
	layer = squashfs.NewDir(0o2775, 1000, 2_000_000, modTime)
	overlay.Set("layer", layer)
	several := inode(syscall.S_IFREG | 0o4755)
	several.Content, several.Xattrs = contents[1], map[string]string{"security.capability": "\x01\x00=\n", "user.n": ""}
	for name, i := range map[string]*squashfs.Inode{
		"é 1": several, "z": several, "y": several,
		"device": {Mode: syscall.S_IFCHR | 0o600, Major: 4095, Minor: 1<<20 - 1, ModTime: modTime},
		"block":  {Mode: syscall.S_IFBLK | 0o600, Major: 8, Minor: 1, ModTime: modTime},
		"gone":   inode(syscall.S_IFCHR), // a whiteout
		"link":   {Mode: syscall.S_IFLNK | 0o777, Target: "../" + strings.Repeat("x", 120), ModTime: modTime},
		"pipe":   inode(syscall.S_IFIFO | 0o644),
		"empty":  inode(syscall.S_IFREG),
		"first":  {Mode: syscall.S_IFREG | 0o644, UID: 3_000_000, Content: contents[0], ModTime: modTime},
	} {
		layer.Set(name, i)
	}
	return root, layer
}

// The stream has every kind of file with all that a layer can say of it, in the order of names, each
// directory once and before its files; GNU tar reads it too.
func TestStream(t *testing.T) {
	compressor, pack, contents := packed(t, "first", "shared")
	root, layer := everyKind(contents)
	var stream bytes.Buffer
	w := tarball.NewWriter(&stream, compressor)
	w.AddPack(pack)
	if err := w.WriteTree(layer); err != nil {
		t.Fatal(err)
	}
	for name := range layer.All() {
		t.Errorf("got the entry %s after WriteTree, want none: their memory is not freed", name)
	}
	root.Set("a", inode(syscall.S_IFREG|0o644))
	if err := w.Close(root); err != nil {
		t.Fatal(err)
	}
	if !pack.File().(*file).closed {
		t.Error("got an open pack after Close, want it closed")
	}
	const attributes = ` SCHILY.xattr.security.capability="\x01\x00=\n" SCHILY.xattr.user.n=""`
	want := []string{
		"5 ./ 755 0:0",
		"5 overlay/ 700 0:0",
		"5 overlay/layer/ 2775 1000:2000000",
		"4 overlay/layer/block 600 0:0 8,1",
		"3 overlay/layer/device 600 0:0 4095,1048575",
		"0 overlay/layer/empty 0 0:0",
		"0 overlay/layer/first 644 3000000:0 first",
		"3 overlay/layer/gone 0 0:0 0,0",
		"2 overlay/layer/link 777 0:0 -> ../" + strings.Repeat("x", 120),
		"6 overlay/layer/pipe 644 0:0",
		"0 overlay/layer/y 4755 0:0" + attributes + " shared",
		"1 overlay/layer/z 4755 0:0 -> overlay/layer/y" + attributes,
		"1 overlay/layer/é 1 4755 0:0 -> overlay/layer/y" + attributes,
		"0 a 644 0:0",
	}
	if diff := cmp.Diff(want, entries(t, bytes.NewReader(stream.Bytes()))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	list := exec.Command("tar", "--list", "--quoting-style=literal")
	list.Stdin = bytes.NewReader(stream.Bytes())
	out, err := list.CombinedOutput()
	if got := strings.Count(string(out), "\n"); err != nil || got != len(want) {
		t.Errorf("got %d entries from GNU tar, %v, want %d:\n%s", got, err, len(want), out)
	}
}

// A pack that has changed since it was written is an error that names it, and not content.
func TestDamagedPack(t *testing.T) {
	compressor, pack, contents := packed(t, strings.Repeat("content", 100_000))
	f := pack.File().(*file)
	if _, err := f.WriteAt([]byte("C"), 300_000); err != nil {
		t.Fatal(err)
	}
	root := squashfs.NewDir(0o755, 0, 0, modTime)
	root.Set("file", &squashfs.Inode{Mode: syscall.S_IFREG, Content: contents[0]})
	w := tarball.NewWriter(io.Discard, compressor)
	w.AddPack(pack)
	var damage *squashfs.Damage
	if err := w.Close(root); !errors.As(err, &damage) || damage.File != pack.File() {
		t.Errorf("got %v, want a *squashfs.Damage of the pack", err)
	}
	if !f.closed {
		t.Error("got an open pack after an error, want it closed")
	}
}
