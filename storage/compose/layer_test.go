package compose

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Short names for the tables.
var f, d, l, s = sample.File, sample.Dir, sample.Hardlink, sample.Symlink

func tarOf(t *testing.T, entries []sample.Entry) []byte {
	t.Helper()
	stream, err := sample.Tar(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// unpack reads a stream into a tree and its record.
func unpack(t *testing.T, layer []byte) (*reader, []byte, error) {
	t.Helper()
	compressor, err := squashfs.NewCompressor(squashfs.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(compressor.Close)
	pack := compressor.NewPacker(io.Discard)
	t.Cleanup(pack.Abort)
	var record bytes.Buffer
	split, err := newSplitter(bytes.NewReader(layer), &record)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(pack, newTree(newBudget(t.Context(), Blob{}), ""), split)
	err = r.read()
	return r, record.Bytes(), err
}

// describe lists a tree: a line a name, sorted.
func describe(root *squashfs.Inode) []string {
	var lines []string
	var walk func(string, *squashfs.Inode)
	walk = func(at string, dir *squashfs.Inode) {
		for name, i := range dir.All() {
			name = at + name
			switch {
			case i.IsDir():
				opaque := ""
				if i.Xattrs[opaqueXattr] == "y" {
					opaque = " opaque"
				}
				lines = append(lines, name+"/"+opaque)
				walk(name+"/", i)
			case isWhiteout(i):
				lines = append(lines, name+" deleted")
			case i.IsSymlink():
				lines = append(lines, name+" -> "+i.Target)
			case i.Content == nil:
				lines = append(lines, name+" 0")
			default:
				lines = append(lines, fmt.Sprintf("%s %d", name, i.Content.Size()))
			}
		}
	}
	walk("", root)
	slices.Sort(lines)
	return lines
}

// entryTrees are tar entries of a layer, and the lines of its tree.
var entryTrees = map[string]struct {
	entries []sample.Entry
	want    []string
}{
	"whiteout":                           {[]sample.Entry{f(".wh.a", "")}, []string{"a deleted"}},
	"whiteout in a folder without entry": {[]sample.Entry{f("d/.wh.a", "")}, []string{"d/", "d/a deleted"}},
	"whiteout before the file":           {[]sample.Entry{f(".wh.a", ""), f("a", "x")}, []string{"a 1"}},
	"whiteout after the file":            {[]sample.Entry{f("a", "x"), f(".wh.a", "")}, []string{"a 1"}},
	"whiteout before the folder": { // the specification hides what is below, a pull does not
		[]sample.Entry{f(".wh.a", ""), d("a"), f("a/b", "x")}, []string{"a/", "a/b 1"},
	},
	"opaque by the attribute of overlayfs": {
		[]sample.Entry{{Header: tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755,
			PAXRecords: map[string]string{"SCHILY.xattr.trusted.overlay.opaque": "y"}}}}, []string{"a/ opaque"},
	},
	"whiteout after the folder": {
		[]sample.Entry{d("a"), f("a/b", "x"), f(".wh.a", "")}, []string{"a/ opaque", "a/b 1"},
	},
	"whiteout before an entry below": {
		[]sample.Entry{f(".wh.a", ""), f("a/b", "x")}, []string{"a/ opaque", "a/b 1"},
	},
	"whiteout before an entry far below": {
		[]sample.Entry{d("a"), d("a/b"), f("a/b/.wh.c", ""), f("a/b/c/d/e", "x")},
		[]string{"a/", "a/b/", "a/b/c/ opaque", "a/b/c/d/", "a/b/c/d/e 1"},
	},
	"whiteout before a whiteout below": {[]sample.Entry{f(".wh.a", ""), f("a/.wh.b", "")}, []string{"a deleted"}},
	"opaque first": {
		[]sample.Entry{f("a/.wh..wh..opq", ""), d("a"), f("a/b", "x")}, []string{"a/ opaque", "a/b 1"},
	},
	"opaque last": {
		[]sample.Entry{d("a"), f("a/b", "x"), f("a/.wh..wh..opq", "")}, []string{"a/ opaque", "a/b 1"},
	},
	"folder attributes after opaque": {
		[]sample.Entry{f("a/.wh..wh..opq", ""), d("a"), d("a")}, []string{"a/ opaque"},
	},
	"whiteout of a long name": {
		[]sample.Entry{f(".wh."+strings.Repeat("n", 255), "")}, []string{strings.Repeat("n", 255) + " deleted"},
	},
	"whiteout below a file": {[]sample.Entry{f("a", "x"), f("a/.wh.b", "")}, []string{"a 1"}},
	"AUFS bookkeeping":      {[]sample.Entry{d(".wh..wh.plnk"), f(".wh..wh.aufs", "")}, nil},
	"repeated file":         {[]sample.Entry{f("a", "1"), f("a", "four")}, []string{"a 4"}},
	"file over folder":      {[]sample.Entry{d("a"), f("a/b", "x"), f("a", "xy")}, []string{"a 2"}},
	"folder over file": {
		[]sample.Entry{f("a", "xy"), d("a"), f("a/b", "x")}, []string{"a/", "a/b 1"},
	},
	"folder over symlink": {
		[]sample.Entry{d("x"), s("a", "x"), d("a"), f("a/b", "1")}, []string{"a/", "a/b 1", "x/"},
	},
	"below a symlinked parent": {
		[]sample.Entry{s("lib", "usr/lib"), f("lib/a", "x")}, []string{"lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/a 1"},
	},
	"below an absolute symlink": {
		[]sample.Entry{d("x"), s("x/lib", "/usr/lib"), f("x/lib/a", "x")}, []string{
			"usr/", "usr/lib/", "usr/lib/a 1", "x/", "x/lib -> /usr/lib",
		},
	},
	"absolute names count from the root": {[]sample.Entry{f("/etc/motd", "hi")}, []string{"etc/", "etc/motd 2"}},
	"dots within the layer":              {[]sample.Entry{f("./a/../b/./c", "x")}, []string{"b/", "b/c 1"}},
	"hard link":                          {[]sample.Entry{f("a", "xyz"), l("b", "a")}, []string{"a 3", "b 3"}},
	"hard link to what follows":          {[]sample.Entry{l("b", "a"), f("a", "xyz")}, []string{"a 3", "b 3"}},
	"hard link with an absolute target":  {[]sample.Entry{f("a", "xyz"), l("b", "/a")}, []string{"a 3", "b 3"}},
	"hard link through a symlinked parent": {
		[]sample.Entry{s("lib", "usr"), f("usr/a", "xyz"), l("b", "lib/a")}, []string{
			"b 3", "lib -> usr", "usr/", "usr/a 3",
		},
	},
}

func TestEntriesBecomeATree(t *testing.T) {
	for name, test := range entryTrees {
		t.Run(name, func(t *testing.T) {
			r, _, err := unpack(t, tarOf(t, test.entries))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, describe(r.tree.root)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEntriesThatNoLayerMayHave(t *testing.T) {
	long := strings.Repeat("n", 256)
	for name, test := range map[string]struct {
		entries []sample.Entry
		want    error
	}{
		"up and out":           {[]sample.Entry{f("../a", "x")}, ErrEscape},
		"down, up and out":     {[]sample.Entry{f("a/../../b", "x")}, ErrEscape},
		"absolute, up and out": {[]sample.Entry{f("/../etc/passwd", "x")}, ErrEscape},
		"through a symlink":    {[]sample.Entry{s("a", "../../etc"), f("a/passwd", "x")}, ErrEscape},
		"through a chain of symlinks": {
			[]sample.Entry{d("x"), s("x/up", ".."), s("out", "x/up/../etc"), f("out/passwd", "x")}, ErrEscape,
		},
		"hard link up and out":        {[]sample.Entry{l("a", "../etc/passwd")}, ErrEscape},
		"whiteout up and out":         {[]sample.Entry{f("../.wh.a", "")}, ErrEscape},
		"hard link to nothing":        {[]sample.Entry{l("a", "b")}, ErrEntry},
		"hard link to a folder":       {[]sample.Entry{d("b"), l("a", "b")}, ErrEntry},
		"symlinks in a circle":        {[]sample.Entry{s("a", "b"), s("b", "a"), f("a/c", "x")}, ErrEntry},
		"below a file":                {[]sample.Entry{f("a", "x"), f("a/b", "x")}, ErrEntry},
		"root that is a file":         {[]sample.Entry{f(".", "x")}, ErrEntry},
		"whiteout of nothing":         {[]sample.Entry{f("a/.wh.", "")}, ErrEntry},
		"whiteout of the parent":      {[]sample.Entry{f("a/.wh...", "")}, ErrEntry},
		"hard link that is the root":  {[]sample.Entry{f("a", "x"), l("./", "a")}, ErrEntry},
		"long name of a parent":       {[]sample.Entry{f(long+"/a", "x")}, ErrEntry},
		"long name in a symlink":      {[]sample.Entry{s("a", long), f("a/b", "x")}, ErrEntry},
		"path that is too long":       {[]sample.Entry{f(strings.Repeat("d/", 2100)+"a", "x")}, ErrEntry},
		"attribute without a name":    {[]sample.Entry{withXattr("user.", "x")}, ErrEntry},
		"attribute with a long name":  {[]sample.Entry{withXattr("user."+long, "x")}, ErrEntry},
		"attribute that is too large": {[]sample.Entry{withXattr("user.a", strings.Repeat("x", 65537))}, ErrEntry},
		"user attribute of a link": {
			[]sample.Entry{{Header: tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b",
				PAXRecords: map[string]string{"SCHILY.xattr.user.a": "1"}}}}, ErrEntry,
		},
		"symlink to nowhere":       {[]sample.Entry{s("a", "")}, ErrEntry},
		"symlink that is too long": {[]sample.Entry{s("a", strings.Repeat("x/", 2048))}, ErrEntry},
		"long name":                {[]sample.Entry{f(long, "x")}, ErrEntry},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := unpack(t, tarOf(t, test.entries)); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func withXattr(name, value string) sample.Entry {
	return sample.Entry{Header: tar.Header{Name: "a", PAXRecords: map[string]string{"SCHILY.xattr." + name: value}}}
}

// Folders without an entry get the setgid bit of their parent, as mkdir has it.
func TestImplicitFoldersInheritSetgid(t *testing.T) {
	r, _, err := unpack(t, tarOf(t, []sample.Entry{{Header: tar.Header{Name: "a/", Mode: 0o2775}}, f("a/b/c", "x")}))
	if err != nil {
		t.Fatal(err)
	}
	if b := r.tree.root.Entry("a").Entry("b"); b.Mode != syscall.S_IFDIR|0o2755 {
		t.Errorf("mode %o", b.Mode)
	}
}

// A hard link's entry speaks for the file from there on, as with tar.
func TestHardLinkEntriesCarryAttributes(t *testing.T) {
	r, _, err := unpack(t, tarOf(t, []sample.Entry{
		f("a", "x"), {Header: tar.Header{Name: "b", Typeflag: tar.TypeLink, Linkname: "a", Mode: 0o4711, Uid: 5, Gid: 6}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if a := r.tree.root.Entry("a"); a.Mode != syscall.S_IFREG|0o4711 || a.UID != 5 || a.GID != 6 ||
		a != r.tree.root.Entry("b") {
		t.Errorf("%+v", a)
	}
}

// A hard link is another entry of one file: what it adds counts, and what it does not
// name stays.
func TestAttributesOfAHardLink(t *testing.T) {
	r, _, err := unpack(t, tarOf(t, []sample.Entry{
		{
			Header: tar.Header{
				Name: "a", PAXRecords: map[string]string{"SCHILY.xattr.user.first": "1", "SCHILY.xattr.user.both": "1"},
			},
		},
		{
			Header: tar.Header{
				Name: "b", Typeflag: tar.TypeLink, Linkname: "a", PAXRecords: map[string]string{
					"SCHILY.xattr.user.both": "2", "SCHILY.xattr.user.second": "2",
				},
			},
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"user.first": "1", "user.both": "2", "user.second": "2"}
	if diff := cmp.Diff(want, r.tree.root.Entry("a").Xattrs); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

// Attributes of overlayfs are as after a pull: what they refer to are other layers of the same image.
func TestOverlayAttributesOfAnImage(t *testing.T) {
	h := tar.Header{Name: "a", PAXRecords: map[string]string{
		"SCHILY.xattr.trusted.overlay.redirect": "/etc", "SCHILY.xattr.security.selinux": "x", "SCHILY.xattr.user.keep": "1",
	}}
	r, _, err := unpack(t, tarOf(t, []sample.Entry{{Header: h}}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"trusted.overlay.redirect": "/etc", "user.keep": "1"}
	if diff := cmp.Diff(want, r.tree.root.Entry("a").Xattrs); diff != "" {
		t.Error(diff)
	}
}

// A layer without an entry for its root has its parent's, as a pull has it, and
// folders without one its setgid bit.
func TestRootIsInherited(t *testing.T) {
	below := rootAttributes{0o2750, 7, 8}
	for name, test := range map[string]struct {
		entries []sample.Entry
		root    rootAttributes
		folder  uint32
	}{
		"without an entry": {[]sample.Entry{f("a/b", "x")}, below, 0o2755},
		"with an entry": {
			[]sample.Entry{{Header: tar.Header{Name: "./", Uid: 7}}, f("a/b", "x")}, rootAttributes{0o755, 7, 0}, 0o755,
		},
		"with a late one": {
			[]sample.Entry{f("a/b", "x"), {Header: tar.Header{Name: "./", Uid: 7}}}, rootAttributes{0o755, 7, 0}, 0o2755,
		},
	} {
		r, _, err := unpack(t, tarOf(t, test.entries))
		if err != nil {
			t.Fatal(err)
		}
		inheritRoot(r.tree.root, below)
		if got := attributesOf(r.tree.root); got != test.root {
			t.Errorf("%s: root %+v, want %+v", name, got, test.root)
		}
		if got := r.tree.root.Entry("a").Mode & 0o7777; got != test.folder {
			t.Errorf("%s: folder %o, want %o", name, got, test.folder)
		}
	}
}

func TestSparseFilesOfGNUTar(t *testing.T) {
	for _, format := range []string{"gnu", "pax"} {
		dir := t.TempDir()
		file, err := os.Create(filepath.Join(dir, "sparse"))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{0, 700_000, 3 << 20} {
			if _, err := file.WriteAt([]byte("data"), at); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		layer, err := exec.Command("tar", "--format="+format, "--sparse", "-C", dir, "-c", "sparse").Output()
		if err != nil {
			t.Fatal(err)
		}
		if len(layer) > 200_000 {
			t.Fatalf("GNU tar made no sparse entry: %d bytes", len(layer))
		}
		r, _, err := unpack(t, layer)
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if diff := cmp.Diff([]string{fmt.Sprintf("sparse %d", 3<<20+4)}, describe(r.tree.root)); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
}

// A stream that ends in a file is the fault of the layer, unless it could not be read.
func TestStreamThatEndsInAFile(t *testing.T) {
	whole := tarOf(t, []sample.Entry{f("a", strings.Repeat("a", 5000))})
	if _, _, err := unpack(t, whole[:2000]); !errors.Is(err, ErrEntry) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want %v", err, ErrEntry)
	}
	lost := errors.New("lost")
	split, err := newSplitter(io.MultiReader(bytes.NewReader(whole[:2000]), iotest.ErrReader(lost)), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(split)
	if _, err := tr.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(body{tr, split}); !errors.Is(err, lost) || errors.Is(err, ErrEntry) {
		t.Errorf("got %v, want %v alone", err, lost)
	}
}
