package compose_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// fading is a pack whose file is closed.
type fading struct {
	*bytes.Reader
	closed bool
}

func (f *fading) ReadAt(p []byte, at int64) (int, error) {
	if f.closed {
		return 0, errors.New("closed")
	}
	return f.Reader.ReadAt(p, at)
}

func (f *fading) Close() error {
	f.closed = true
	return nil
}

// A store does not keep the files of small packs open: 100,000 small layers are more than a process may open.
func TestSmallPacksAreCopied(t *testing.T) {
	compressor := newCompressor(t)
	out, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(1000, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, out, compressor)
	for _, name := range []string{"a", "b", "c"} {
		stream := tarStream(t, sample.File(name, name))
		pack, err := packLayer(t, compressor, stream)
		if err != nil {
			t.Fatal(err)
		}
		src := &fading{Reader: bytes.NewReader(pack)}
		if !compose.Shelves(src.Size()) {
			t.Fatalf("a pack of %d bytes is not small", src.Size())
		}
		if _, err := s.AddLayer(layerOf("", stream), src, src.Size()); err != nil {
			t.Fatal(err)
		}
		src.Close()
	}
	root, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	image, err := out.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := image.WriteTo(io.Discard); err != nil {
		t.Error(err)
	}
}

// A small pack whose blocks are damaged is found when it is added, with its file, so that a build can remove it.
func TestDamagedSmallPack(t *testing.T) {
	compressor := newCompressor(t)
	stream := tarStream(t, sample.File("a", "content"))
	pack, err := packLayer(t, compressor, stream)
	if err != nil {
		t.Fatal(err)
	}
	pack[20] ^= 1 // in the first block
	checkDamaged(t, compressor, pack, func(s *compose.Store, src source) error {
		_, err := s.AddLayer(layerOf("", stream), src, src.Size())
		return err
	}, "layer ")
}
