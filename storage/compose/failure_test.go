package compose

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// trees counts what is placed in a store.
type trees struct {
	*squashfs.Writer
	written int
}

func (o *trees) WriteTree(dir *squashfs.Inode) error {
	o.written++
	return o.Writer.WriteTree(dir)
}

var errFull = errors.New("no space left")

// full takes no records.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// A layer whose record cannot be written is not placed in the store. A bug was that it was, by cmp.Or(f(), g()) of
// errors, which calls both.
func TestLayerWithoutItsRecordIsNotPlaced(t *testing.T) {
	compressor, err := squashfs.NewCompressor(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	layer, pack := packed(t, compressor)

	t.Run("added", func(t *testing.T) {
		s, out := empty(t, compressor)
		s.layers.enc = layout.NewRecordEncoder(full{})
		if _, err := s.AddLayer(layer, inMemory{bytes.NewBuffer(pack)}, int64(len(pack))); !errors.Is(err, errFull) || out.written > 0 {
			t.Errorf("got %d trees, %v, want none, %v", out.written, err, errFull)
		}
	})
	t.Run("moved", func(t *testing.T) {
		from, written := empty(t, compressor)
		if _, err := from.AddLayer(layer, inMemory{bytes.NewBuffer(pack)}, int64(len(pack))); err != nil {
			t.Fatal(err)
		}
		r := finished(t, from, written)
		records, err := readLayers(r)
		if err != nil || len(records) != 1 {
			t.Fatalf("got %d records, %v, want 1", len(records), err)
		}
		s, out := empty(t, compressor)
		copier, err := out.NewCopier(r)
		if err != nil {
			t.Fatal(err)
		}
		s.layers.enc = layout.NewRecordEncoder(full{})
		if err := s.moveLayer(copier, records[0]); !errors.Is(err, errFull) || out.written > 0 {
			t.Errorf("got %d trees, %v, want none, %v", out.written, err, errFull)
		}
	})
}

// packed returns a layer of one file, and its pack.
func packed(t *testing.T, compressor *squashfs.Compressor) (Layer, []byte) {
	t.Helper()
	var content, pack bytes.Buffer
	w := tar.NewWriter(&content)
	if err := w.WriteHeader(&tar.Header{Name: "version", Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	id := digest.FromBytes(content.Bytes())
	blob := Blob{Digest: id, DiffID: id, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}}
	if err := PackLayer(t.Context(), compressor, blob, &pack, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return Layer{Digest: id, DiffID: id, Size: int64(content.Len())}, pack.Bytes()
}

// empty starts a store.
func empty(t *testing.T, compressor *squashfs.Compressor) (*Store, *trees) {
	t.Helper()
	w, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	out := &trees{Writer: w}
	s, err := NewStore(out, compressor, time.Unix(0, 0), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Abort)
	return s, out
}

// finished reads what a store has become.
func finished(t *testing.T, s *Store, out *trees) *squashfs.Reader {
	t.Helper()
	root, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	image, err := out.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := image.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	r, err := squashfs.OpenImage(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
