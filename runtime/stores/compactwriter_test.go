package stores_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/verity"
)

// memory is a pack in memory.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// composedStore writes a store of an image with one file, and a lock of a time. It returns the IDs of the
// image and its layer.
func composedStore(t *testing.T, file string, modified time.Time) (store mount.Extent, image, layer string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	compressor, err := squashfs.NewCompressor(squashfs.Options{Workers: 1})
	must(err)
	defer compressor.Close()
	out, err := squashfs.NewWriter(compressor.ImageOptions(modified))
	must(err)
	s, err := compose.NewStore(out, compressor, modified, t.TempDir())
	must(err)
	var stream, pack bytes.Buffer
	w := tar.NewWriter(&stream)
	must(w.WriteHeader(&tar.Header{Name: file, Mode: 0o644}))
	must(w.Close())
	diffID := digest.FromBytes(stream.Bytes())
	blob := compose.Blob{DiffID: diffID, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(stream.Bytes())), nil
	}}
	must(compose.PackLayer(t.Context(), compressor, blob, &pack, t.TempDir()))
	unpacked, err := s.AddLayer(compose.Layer{Digest: diffID, Size: int64(stream.Len()), DiffID: diffID},
		memory{bytes.NewReader(pack.Bytes())}, int64(pack.Len()))
	must(err)
	config := []byte(`{"rootfs":{"diff_ids":["` + diffID + `"]}}`)
	s.AddImage(compose.Image{
		Names: []string{"quay.io/x/" + file}, TopLayer: unpacked.ID, Manifest: []byte(file), Config: config,
	})
	must(s.AddFile(layout.OwnLock, 0o644, strings.NewReader("{}")))
	root, err := s.Close()
	must(err)
	finished, err := out.Close(root)
	must(err)
	f, err := os.Create(filepath.Join(t.TempDir(), "store.squashfs"))
	must(err)
	defer f.Close()
	size, err := finished.WriteTo(f)
	must(err)
	return mount.Extent{Path: f.Name(), Size: size}, digest.FromBytes(config).Encoded(), unpacked.ID
}

// A compacted store has the images of the plan, its lock and its sets, and the time of the newest store.
func TestWriteCompacted(t *testing.T) {
	old, newest := time.Unix(1000, 0), time.Unix(2000, 0)
	one, imageOne, layerOne := composedStore(t, "one", old)
	two, imageTwo, layerTwo := composedStore(t, "two", newest)
	three, _, layerThree := composedStore(t, "three", newest)
	var last, size int64
	for name, progress := range map[string]func(int64, int64){
		"without progress": nil, "with progress": func(n, of int64) { last, size = n, of },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := stores.WriteCompacted(t.Context(), &out, stores.CompactPlan{
				Stores: []mount.Extent{one, three, two}, Images: map[string]bool{imageOne: true, imageTwo: true},
				Lock: pinset.Lock{Version: pinset.LockVersion, Platform: "linux/amd64"}, Sets: map[string]string{"s.yaml": "a set"},
				TempDir: t.TempDir(), Progress: progress,
			}); err != nil {
				t.Fatal(err)
			}
			if progress != nil && (last == 0 || last != size || size > int64(out.Len())) { // a hash tree follows
				t.Errorf("got %d of %d bytes as progress, want all bytes of the store", last, size)
			}
			checker := verity.NewChecker(int64(out.Len()))
			_, _ = checker.Write(out.Bytes()) // Write never fails
			if tree, err := checker.Tree(); err != nil || tree.IsZero() {
				t.Errorf("got the hash tree %+v, %v, want one of the store", tree, err)
			}
			file := filepath.Join(t.TempDir(), "compacted")
			write(t, file, out.String())
			store, err := stores.OpenFS(mount.Extent{Path: file, Size: int64(out.Len())})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			layers, err := fs.Glob(store, "overlay/????????*")
			want := slices.Sorted(slices.Values([]string{"overlay/" + layerOne, "overlay/" + layerTwo}))
			if err != nil || !slices.Equal(layers, want) {
				t.Errorf("got the layers %q, %v, want %q without %s", layers, err, want, layerThree)
			}
			lock, err := store.Open(layout.OwnLock)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			info, err := lock.Stat()
			if err != nil || !info.ModTime().Equal(newest) {
				t.Errorf("got a lock of %v, %v, want %v", info, err, newest)
			}
			if got, err := pinset.DecodeLock(lock); err != nil || got.Platform != "linux/amd64" {
				t.Errorf("got the lock %+v, %v, want that of the plan", got, err)
			}
			if text, err := fs.ReadFile(store, layout.OwnSets+"/s.yaml"); err != nil || string(text) != "a set" {
				t.Errorf("got the set %q, %v, want that of the plan", text, err)
			}
			if _, err := fs.Stat(store, layout.OwnDelta); err == nil {
				t.Error("got a delta.json, want none: no layer is missing")
			}
		})
	}
}

func TestWriteCompactedOfAText(t *testing.T) {
	text := mount.Extent{Path: filepath.Join(t.TempDir(), "text"), Size: 4}
	write(t, text.Path, "text")
	plan := stores.CompactPlan{Stores: []mount.Extent{text}}
	if err := stores.WriteCompacted(t.Context(), io.Discard, plan); err == nil {
		t.Error("got no error, want that a text is no store")
	}
}
