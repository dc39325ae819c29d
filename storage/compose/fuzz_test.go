package compose_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// seeds are the layers that a fuzzer starts with.
func seeds(f *testing.F) {
	f.Helper()
	for _, entries := range [][]sample.Entry{
		{sample.Dir("d"), sample.File("d/a", "content"), sample.File("d/.wh.b", "")},
		{sample.File(".wh..wh..opq", ""), sample.File("a", "x"), sample.File("a", "again")},
	} {
		stream, err := sample.Tar(entries...)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stream)
	}
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00"))
}

// Whatever a layer has, it is refused, or its pack can be read and has all of it.
func FuzzPackLayer(f *testing.F) {
	seeds(f)
	c, err := squashfs.NewCompressor(squashfs.Options{Workers: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	f.Fuzz(func(t *testing.T, stream []byte) {
		var out bytes.Buffer
		if compose.PackLayer(t.Context(), c, blobOf(stream, stream), &out, t.TempDir()) != nil {
			return
		}
		pack, err := c.OpenPack(memory{bytes.NewReader(out.Bytes())}, int64(out.Len()))
		if err != nil {
			t.Fatalf("the pack of a layer: got %v, want no error", err)
		}
		if err := pack.Check(); err != nil {
			t.Errorf("the pack of a layer: got %v, want no error", err)
		}
	})
}

// memory is a file of the cache.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// Whatever a file of the cache has, it is refused, or its content can be read or is damaged.
func FuzzPacks(f *testing.F) {
	c, err := squashfs.NewCompressor(squashfs.Options{Workers: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	stream, err := sample.Tar(sample.Dir("d"), sample.File("d/a", "content"))
	if err != nil {
		f.Fatal(err)
	}
	var out bytes.Buffer
	if err := compose.PackLayer(f.Context(), c, blobOf(stream, stream), &out, f.TempDir()); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add(out.Bytes()[:out.Len()/2])
	f.Fuzz(func(t *testing.T, content []byte) {
		pack, err := c.OpenPack(memory{bytes.NewReader(content)}, int64(len(content)))
		if err == nil {
			_ = pack.Check() // it may be damaged
		}
	})
}

// A layer is read as it is in the stream, or refused.
func FuzzReadLayer(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, stream []byte) {
		blob := blobOf(stream, stream)
		var read bytes.Buffer
		size, err := compose.ReadLayer(t.Context(), blob, func(r io.Reader) error {
			_, err := io.Copy(&read, r)
			return err
		})
		if err != nil {
			return
		}
		if size != int64(read.Len()) {
			t.Errorf("got a size of %d bytes, want %d", size, read.Len())
		}
		if !bytes.Equal(read.Bytes(), stream) {
			t.Errorf("got %d other bytes, want those with the DiffID", read.Len())
		}
	})
}
