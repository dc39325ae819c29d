package compose_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// randomLayer is a layer of few names, so that entries meet: replace each other,
// link to each other, stand below links, are made again after a whiteout.
func randomLayer(seed uint64) []sample.Entry {
	r := rand.New(rand.NewPCG(seed, 7))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	name := func() string {
		n := pick("a", "b", "c", "d")
		for range r.IntN(3) {
			n += "/" + pick("a", "b", "e")
		}
		return n
	}
	var entries []sample.Entry
	for range 1 + r.IntN(14) {
		h := tar.Header{Name: name(), Mode: int64(r.IntN(0o10000)), Uid: r.IntN(3), Gid: r.IntN(3)}
		body := ""
		switch r.IntN(9) {
		case 0, 1:
			body = fmt.Sprint(r.Uint32())
			if r.IntN(4) == 0 {
				h.PAXRecords = map[string]string{"SCHILY.xattr.user.n": fmt.Sprint(r.IntN(3))}
			}
		case 2, 3:
			h.Name += "/"
			switch r.IntN(4) {
			case 0:
				h.PAXRecords = map[string]string{"SCHILY.xattr.trusted.overlay.opaque": pick("y", "n")}
			case 1:
				h.Uid, h.Gid = -1, -1
			}
		case 4:
			h.Typeflag, h.Linkname = tar.TypeSymlink, pick("a", "b", "/d", "../a", "e", "/nowhere")
		case 5:
			h.Typeflag, h.Linkname = tar.TypeLink, name()
		case 6:
			h.Typeflag = tar.TypeFifo
		case 7:
			h.Name = filepath.Dir(h.Name) + "/.wh." + pick("a", "b", "x", "y")
		case 8:
			h.Name = filepath.Dir(h.Name) + "/.wh..wh..opq"
		}
		entries = append(entries, sample.Entry{Header: h, Body: body})
	}
	return entries
}

// source is a pack in memory.
type source struct{ *bytes.Reader }

func (source) Close() error { return nil }

// What pinbox makes of a layer is what containers/storage unpacks.
func TestRandomLayersUnpackAsInContainersStorage(t *testing.T) {
	fixtures.NeedRoot(t)
	defer syscall.Umask(syscall.Umask(0o022))
	compressor, err := squashfs.NewCompressor(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	image, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	store := begin(t, image, compressor)
	seeds, trees := map[string]uint64{}, map[string]map[string]string{} // by the IDs of layers
	for seed := range uint64(800) {
		stream, err := sample.Tar(randomLayer(seed)...)
		if err != nil {
			t.Fatal(err)
		}
		tree, theirs := oracleTree(t, stream)
		pack, err := packLayer(t, compressor, stream)
		switch {
		case theirs != nil || errors.Is(err, compose.ErrEscape): // we refuse links that lead out, they bend them back
			continue
		case err != nil:
			t.Errorf("seed %d: containers/storage unpacks what pinbox refuses: %v", seed, err)
			continue
		}
		unpacked, err := store.AddLayer(compose.Layer{
			Digest: digest.FromBytes(stream), Size: int64(len(stream)), DiffID: digest.FromBytes(stream),
		}, source{bytes.NewReader(pack)}, int64(len(pack)))
		if err != nil {
			t.Fatal(err)
		}
		seeds[unpacked.ID], trees[unpacked.ID] = seed, tree
	}
	if len(seeds) < 150 {
		t.Errorf("%d layers to compare: this test shows little", len(seeds))
	}
	dir := mounted(t, image, store)
	for id, seed := range seeds {
		if diff := cmp.Diff(trees[id], fixtures.Tree(t, filepath.Join(dir, "overlay", id, "diff"))); diff != "" {
			t.Errorf("seed %d (-containers/storage +pinbox):\n%s\n%+v", seed, diff, randomLayer(seed))
		}
	}
}

// oracleTree is what containers/storage makes of a layer.
func oracleTree(t *testing.T, stream []byte) (tree map[string]string, err error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	err = oracle.Unpack(stream, dir)
	tree = fixtures.Tree(t, dir)
	for name, file := range tree {
		if !strings.HasPrefix(file, "mode 4") { // a mark that means nothing, for the marker stands below a file
			tree[name] = strings.Replace(file, ` trusted.overlay.opaque="y"`, "", 1)
		}
	}
	return tree, err
}

func packLayer(t *testing.T, compressor *squashfs.Compressor, stream []byte) ([]byte, error) {
	t.Helper()
	var pack bytes.Buffer
	err := compose.PackLayer(t.Context(), compressor, compose.Blob{
		DiffID: digest.FromBytes(stream),
		Open:   func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(stream)), nil },
	}, &pack, t.TempDir())
	return pack.Bytes(), err
}

func begin(t *testing.T, out *squashfs.Writer, compressor *squashfs.Compressor) *compose.Store {
	t.Helper()
	store, err := compose.NewStore(out, compressor, time.Unix(0, 0), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// mounted gives the store's image to the kernel.
func mounted(t *testing.T, w *squashfs.Writer, store *compose.Store) string {
	t.Helper()
	root, err := store.Close()
	if err != nil {
		t.Fatal(err)
	}
	img, err := w.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "store.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := img.WriteTo(out); err != nil {
		t.Fatal(err)
	}
	return fixtures.Mount(t, out.Name())
}

// What pinbox makes of a layer is what tar2sqfs makes of it, where that can read it:
// sqfsdiff finds no difference. As a control it finds one file that is another.
func TestLayersPackAsByTar2sqfs(t *testing.T) {
	fixtures.NeedRoot(t) // to read all files of this machine
	fixtures.Need(t, "tar2sqfs", "sqfsdiff")
	dir := t.TempDir()
	stream := filepath.Join(dir, "layer.tar")
	fixtures.Run(t, "tar", "--xattrs", "--sort=name", "--one-file-system", "-C", "/", "-cf", stream, "etc",
		"usr/share/perl", "usr/share/zoneinfo", "usr/sbin", "dev/null")
	theirs := filepath.Join(dir, "theirs.squashfs")
	fixtures.Run(t, "sh", "-c", `tar2sqfs --quiet --force --no-tail-packing --compressor zstd -X level=1 "$1" < "$2"`,
		"sh", theirs, stream)
	content, err := os.ReadFile(stream)
	if err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(dir, "ours.squashfs")
	packed(t, content, ours)
	if diff := sqfsdiff(theirs, ours); len(diff) > 0 {
		t.Errorf("(- tar2sqfs, + pinbox)\n%.3000s", strings.Join(diff, "\n"))
	}
	content[bytes.Index(content, []byte("root:x:0:0:"))]++
	packed(t, content, ours)
	if diff := sqfsdiff(theirs, ours); !slices.ContainsFunc(diff, func(l string) bool {
		return strings.Contains(l, "passwd")
	}) {
		t.Errorf("sqfsdiff does not find what was changed: %q", diff)
	}
}

// sqfsdiff lists the differences, but for the index that we give to large directories.
func sqfsdiff(a, b string) []string {
	out, _ := exec.Command("sqfsdiff", "-T", "-a", a, "-b", b).CombinedOutput() // it fails if there are any
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(line string) bool {
		return line == "" || strings.HasSuffix(line, " has an extended type")
	})
}

// packed writes the image of one layer.
func packed(t *testing.T, stream []byte, name string) {
	t.Helper()
	compressor, err := squashfs.NewCompressor(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	pack, err := packLayer(t, compressor, stream)
	if err != nil {
		t.Fatal(err)
	}
	p, err := compressor.OpenPack(source{bytes.NewReader(pack)}, int64(len(pack)))
	if err != nil {
		t.Fatal(err)
	}
	w, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.AddPack(p)
	root := p.Root.Entry("diff")
	root.Mode = syscall.S_IFDIR | 0o755
	img, err := w.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := img.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
