package compose_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// The bytes that are read of a store, to check it and to read its layers again, grow with the number of its images. A
// bug was to list the folders with all layers for each layer.
func TestReadsGrowWithTheImages(t *testing.T) {
	const few, many = 15, 60
	small, large := manyImages(t, few, 25), manyImages(t, many, 25)
	for name, read := range map[string]func(*squashfs.Reader) error{
		"audit": func(r *squashfs.Reader) error {
			_, err := audit.Store(r)
			return err
		},
		"layers": func(r *squashfs.Reader) error {
			return audit.Layers(t.Context(), r, func(layout.Layer) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := bytesRead(t, small, read), bytesRead(t, large, read)
			exponent := math.Log(float64(after)/float64(before)) / math.Log(float64(many)/few)
			if exponent > 1.2 {
				t.Errorf("got %d bytes for %d images and %d for %d, which grows with the power %.2f; want 1.2 at most",
					before, few, after, many, exponent)
			}
		})
	}
}

// bytesRead returns how many bytes are read of an image.
func bytesRead(t *testing.T, image []byte, read func(*squashfs.Reader) error) int64 {
	t.Helper()
	counter := &countingReader{ReaderAt: bytes.NewReader(image)}
	r, err := squashfs.OpenImage(counter, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	if err := read(r); err != nil {
		t.Fatal(err)
	}
	return counter.n
}

type countingReader struct {
	io.ReaderAt
	n int64
}

func (c *countingReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.n += int64(n)
	return n, err
}

// manyImages makes a store of images with a lock, of so many layers each, all of them different.
func manyImages(t *testing.T, images, layers int) []byte {
	t.Helper()
	compressor := newCompressor(t)
	out, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(1000, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, out, compressor)
	lock := pinset.Lock{Version: pinset.LockVersion, Platform: "linux/amd64"}
	for i := range images {
		lock.Images = append(lock.Images, addMany(t, s, compressor, i, layers))
	}
	if err := s.AddFile(layout.OwnLock, 0o644, compose.Written(lock.Encode)); err != nil {
		t.Fatal(err)
	}
	root, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	image, err := out.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if _, err := image.WriteTo(&content); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

// addMany adds the image number i, of so many layers with one file each.
func addMany(
	t *testing.T, s *compose.Store, compressor *squashfs.Compressor, i, layers int,
) (locked pinset.LockedImage) {
	t.Helper()
	var config struct {
		RootFS struct {
			DiffIDs []digest.Digest `json:"diff_ids"`
		} `json:"rootfs"`
	}
	parent := ""
	for n := range layers {
		name := fmt.Sprintf("layer-%d-of-%d", n, i)
		stream := tarStream(t, sample.File(name, name))
		l := layerOf(parent, stream)
		info, err := addStream(t, s, compressor, l, stream)
		if err != nil {
			t.Fatal(err)
		}
		config.RootFS.DiffIDs, parent = append(config.RootFS.DiffIDs, l.DiffID), info.ID
		locked.Layers = append(locked.Layers, &pinset.LockedLayer{Digest: l.Digest, DiffID: l.DiffID, Size: l.Size})
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	locked.Config = digest.FromBytes(text)
	manifest := fmt.Sprintf(`{"config":{"digest":%q},"layers":[{}%s]}`, locked.Config, bytes.Repeat([]byte(",{}"), layers-1))
	locked.Manifest = digest.FromString(manifest)
	locked.Pin = "quay.io/x/app@" + locked.Manifest.String()
	s.AddImage(compose.Image{Names: []string{locked.Pin}, TopLayer: parent, Manifest: []byte(manifest), Config: text})
	return locked
}
