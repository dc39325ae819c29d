package storage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.podman.io/image/v5/pkg/compression"

	"github.com/pinbox/pinbox/storage/pinset"
)

// maxFile limits files that are read into memory, in bytes.
const maxFile = 64 << 20

// ReadFiles returns the contents of an image's files by their paths; missing files are left out. It
// reads layers from the topmost one down, until all files are found.
func (c *Client) ReadFiles(ctx context.Context, img pinset.Image, paths ...string) (map[string][]byte, error) {
	r, err := c.resolve(ctx, img)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", img, err)
	}
	s := search{wanted: slices.Clone(paths), found: map[string][]byte{}}
	for _, l := range slices.Backward(r.Layers) {
		if len(s.wanted) == 0 {
			break
		}
		blob, err := c.openLayer(ctx, img, l, fetching{})
		if err == nil {
			err = errors.Join(s.layer(blob), blob.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("image %s: layer %s: %w", img, l.Digest, err)
		}
	}
	return s.found, nil
}

// search finds files in layers, from the topmost one down.
type search struct {
	wanted []string
	found  map[string][]byte
}

// layer searches a layer. It reads the blob to its end, where the digest is compared.
func (s *search) layer(blob io.Reader) error {
	stream, _, err := compression.AutoDecompress(blob)
	if err != nil {
		return err
	}
	defer stream.Close()
	var hidden []string
	for tr := tar.NewReader(stream); ; {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(path.Clean(hdr.Name), "/"))
		dir, base := path.Split(name)
		switch {
		case base == ".wh..wh..opq":
			hidden = append(hidden, dir)
		case strings.HasPrefix(base, ".wh."):
			hidden = append(hidden, path.Join(dir, strings.TrimPrefix(base, ".wh.")))
		case hdr.Typeflag == tar.TypeReg && slices.Contains(s.wanted, name):
			if hdr.Size > maxFile {
				return fmt.Errorf("%s has %d bytes", name, hdr.Size)
			}
			if s.found[name], err = io.ReadAll(tr); err != nil {
				return err
			}
		}
	}
	// Padding. The struct hides WriteTo, which fails at the end in pgzip.
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{stream}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, blob); err != nil {
		return err
	}
	s.wanted = slices.DeleteFunc(s.wanted, func(name string) bool {
		_, found := s.found[name]
		return found || slices.ContainsFunc(hidden, func(h string) bool {
			return name == h || strings.HasPrefix(name, strings.TrimSuffix(h, "/")+"/")
		})
	})
	return nil
}
