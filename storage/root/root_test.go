package root_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/root"
)

func TestMain(m *testing.M) {
	if root.Init() {
		return
	}
	if len(os.Args) > 1 && os.Args[1] == copier {
		copierMain()
	}
	oracle.Main(m)
}

// stream is a layer of one file.
func stream(t *testing.T, name, content string) []byte {
	t.Helper()
	all, err := sample.Tar(sample.Entry{Header: tar.Header{Name: name, Mode: 0o640, Uid: 7}, Body: content})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func layerOf(parent string, stream []byte) (compose.Layer, compose.Blob) {
	d := digest.FromBytes(stream)
	return compose.Layer{Parent: parent, Digest: d, Size: int64(len(stream)), DiffID: d},
		compose.Blob{DiffID: d, Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(stream)), nil
		}}
}

const name, manifest = "quay.io/site/app:1", `{"schemaVersion":2}`

var modTime = time.Unix(1_700_000_000, 0)

// begin begins a store.
func begin(t *testing.T) (store *root.Store, dir, run string) {
	t.Helper()
	fixtures.NeedRoot(t)
	dir, run = filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "run")
	store, err := root.New(dir, run, modTime)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Abort(); err != nil {
			t.Error(err)
		}
	})
	return store, dir, run
}

// written writes a store of an image with two layers, and returns its folder and the ID of the top layer.
func written(t *testing.T) (dir, top string) {
	t.Helper()
	store, dir, run := begin(t)
	for _, content := range []string{"below", "above"} {
		layer, blob := layerOf(top, stream(t, content, strings.Repeat(content, 1000)))
		info, err := store.AddLayer(t.Context(), layer, blob)
		if err != nil {
			t.Fatal(err)
		}
		if found, ok := store.Lookup(layer); !ok || found != info || info.ID != layout.LayerID(top, layer.DiffID) {
			t.Errorf("got %+v, %v of the layer %+v", found, ok, info)
		}
		top = info.ID
	}
	store.AddImage(compose.Image{
		Names: []string{name}, TopLayer: top, Manifest: []byte(manifest), Config: []byte("{}"), Created: modTime,
	})
	if err := store.AddFile("pinbox/lock", 0o604, strings.NewReader("lock")); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	noMounts(t, dir, run)
	return dir, top
}

// mounts lists the mounts whose line in mountinfo has a text.
func mounts(t *testing.T, text string) (lines []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// noMounts wants no mount below the folders of a store, and no run root.
func noMounts(t *testing.T, dir, run string) {
	t.Helper()
	for _, folder := range []string{dir, run} {
		if got := mounts(t, folder); len(got) > 0 {
			t.Errorf("got the mounts %v, want none", got)
		}
	}
	if _, err := os.Stat(run); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v of the run root, want that it is removed", err)
	}
}

// The library finds in a store what was written, in order, and it may write to it.
func TestStore(t *testing.T) {
	dir, _ := written(t)
	fi, err := os.Stat(filepath.Join(dir, "pinbox/lock"))
	if err != nil || fi.Mode() != 0o604 || !fi.ModTime().Equal(modTime) {
		t.Errorf("got the file %v, %v, want mode 604 and the time %v", fi, err, modTime)
	}
	library := oracle.Open(t, dir)
	if got := oracle.Names(t, library); !slices.Equal(got, []string{name}) {
		t.Errorf("got the images %v, want %s", got, name)
	}
	if got := oracle.Check(t, library); len(got) > 0 {
		t.Errorf("got %v from the library, want no problem", got)
	}
	text, err := library.ImageBigData(digest.FromString("{}").Encoded(), "manifest")
	if err != nil || string(text) != manifest {
		t.Errorf("got the manifest %s, %v, want %s", text, err, manifest)
	}
	at := oracle.Mount(t, library, name)
	for _, content := range []string{"below", "above"} {
		got, err := os.ReadFile(filepath.Join(at, content))
		if err != nil || string(got) != strings.Repeat(content, 1000) {
			t.Errorf("%s: got %d bytes, %v", content, len(got), err)
		}
	}
}

// A layer with other content than its DiffID says is refused, and a store that is aborted leaves no mounts.
func TestLayerOfOtherContent(t *testing.T) {
	store, dir, run := begin(t)
	layer, _ := layerOf("", stream(t, "file", "content"))
	_, other := layerOf("", stream(t, "file", "another"))
	other.DiffID = layer.DiffID
	_, err := store.AddLayer(t.Context(), layer, other)
	if _, found := store.Lookup(layer); !errors.Is(err, compose.ErrDiffID) || found {
		t.Errorf("got %v, and the layer: %v; want %v, and no layer", err, found, compose.ErrDiffID)
	}
	if err := store.Abort(); err != nil {
		t.Error(err)
	}
	noMounts(t, dir, run)
}

// squash makes a squashfs image of a store, behind some bytes in a file.
func squash(t *testing.T, dir string) root.StoreFile {
	t.Helper()
	image := filepath.Join(t.TempDir(), "store.squashfs")
	fixtures.Run(t, "mksquashfs", dir, image, "-quiet", "-no-progress")
	content, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, append(make([]byte, 4096), content...), 0o600); err != nil {
		t.Fatal(err)
	}
	return root.StoreFile{File: image, Offset: 4096, Size: int64(len(content))}
}

// Examine finds nothing in a store that is whole, the layer whose content has changed, and it leaves no mount.
func TestExamine(t *testing.T) {
	if why := root.CannotExamine(); why != "" {
		fixtures.Skip(t, "%s", why)
	}
	dir, top := written(t)
	good := squash(t, dir)
	if problems, err := root.Examine(t.Context(), []root.StoreFile{good}); err != nil || len(problems) > 0 {
		t.Errorf("got %v, %v, want no problem", problems, err)
	}
	changed := filepath.Join(dir, "overlay", top, "diff/above")
	if err := os.WriteFile(changed, []byte(strings.Repeat("ABOVE", 1000)), 0o640); err != nil {
		t.Fatal(err)
	}
	bad := squash(t, dir)
	problems, err := root.Examine(t.Context(), []root.StoreFile{bad})
	if err != nil || !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, top+": ") }) {
		t.Errorf("got %v, %v, want a problem of the layer %s", problems, err, top)
	}
	if got := mounts(t, "pinbox-examine"); len(got) > 0 {
		t.Errorf("got the mounts %v, want none", got)
	}
	missing := root.StoreFile{File: filepath.Join(t.TempDir(), "missing")}
	if _, err := root.Examine(t.Context(), []root.StoreFile{missing}); !errors.Is(err, root.ErrMount) ||
		!strings.Contains(err.Error(), missing.File) {
		t.Errorf("got %v, want %v and the file", err, root.ErrMount)
	}
}

// Unmount unmounts all mounts of a folder, also several at one place, and none of a folder next to it.
func TestUnmount(t *testing.T) {
	fixtures.NeedRoot(t)
	parent := t.TempDir()
	dir, next := filepath.Join(parent, "a\t b"), filepath.Join(parent, "a\t bc")
	for _, at := range []string{dir, filepath.Join(dir, "below"), filepath.Join(dir, "below"), next} {
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := root.Unmount(dir); err != nil {
		t.Error(err)
	}
	if got := mounts(t, parent); len(got) != 1 || !strings.Contains(got[0], `bc `) {
		t.Errorf("got the mounts %v, want that of %s", got, next)
	}
	if err := root.Unmount(next); err != nil {
		t.Error(err)
	}
	if err := root.Unmount(filepath.Join(parent, "missing")); err != nil {
		t.Errorf("got %v of a folder that does not exist, want no error", err)
	}
}
