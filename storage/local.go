package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pinbox/pinbox/storage/pinset"
)

// What can be wrong with an image on this machine.
var (
	ErrLocal      = errors.New("local image is damaged or incomplete")
	ErrIncomplete = errors.New("some of its blobs are not there")
	ErrWrongKind  = errors.New("not what it is given as")
)

// LocalImage is an image on this machine.
type LocalImage struct {
	// Name as it stands there, "" if there is none.
	Name string
	// Digest of its manifest, or of its index.
	Digest digest.Digest
	blobs  blobStore
	// alone says that no other source can have the blobs that are missing there: the image is damaged then.
	alone bool
	// origin is the file or folder, for messages.
	origin string
	// sparse says why an instance of its index is not there; nil if all should be.
	sparse error
}

// WithSparseIndex is an image that may lack instances of its index, for a reason.
func (f LocalImage) WithSparseIndex(why error) LocalImage {
	f.sparse = why
	return f
}

// WithDigest is another image of the same place, by the digest of its manifest, if that is there.
func (f LocalImage) WithDigest(d digest.Digest) (LocalImage, bool) {
	there := f.Digest == d || f.blobs.has(d)
	f.Digest = d
	return f, there
}

// Path is the file or folder that has it.
func (f LocalImage) Path() string { return f.origin }

// ReadLayout lists the images of a folder of the OCI image layout.
func ReadLayout(dir string) ([]LocalImage, error) {
	switch fi, err := stat(dir); {
	case err != nil:
		return nil, err
	case !fi.IsDir():
		return nil, fmt.Errorf("%s: %w: a file is no OCI layout; is it an archive?", dir, ErrWrongKind)
	case !exists(filepath.Join(dir, imgspecv1.ImageLayoutFile)) && !exists(filepath.Join(dir, imgspecv1.ImageIndexFile)):
		return nil, fmt.Errorf("%s: %w: it has no %s of an OCI layout", dir, ErrWrongKind, imgspecv1.ImageIndexFile)
	}
	all, err := ociImages(folder(dir), dir)
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w: %w", dir, ErrLocal, err)
	}
	return all, nil
}

// transports are what other tools write before a path.
var transports = []string{"oci:", "oci-archive:", "docker-archive:", "dir:", "containers-storage:"}

func stat(path string) (fs.FileInfo, error) {
	fi, err := os.Stat(path)
	if i := slices.IndexFunc(transports, func(t string) bool { return strings.HasPrefix(path, t) }); err != nil && i >= 0 {
		return nil, fmt.Errorf("%w; leave out the %s", err, transports[i])
	}
	return fi, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// AddLocal has an image read from this machine, whenever it is asked for by this
// name.
func (c *Client) AddLocal(img pinset.Image, found LocalImage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.local[img] = found
}

// openLocal gives nil for an image that is not there.
func (c *Client) openLocal(ctx context.Context, img pinset.Image) (*imageSource, error) {
	c.mu.Lock()
	found, ok := c.local[img]
	c.mu.Unlock()
	if !ok {
		return nil, nil
	}
	ref, err := dockerReference(img.String())
	if err != nil {
		return nil, found.explain(ctx, err)
	}
	src := localSource{found.blobs, ref, found.Digest, found.sparse}
	return &imageSource{
		ImageSource: src, pinned: img, manifests: map[string]document{}, explain: found.explain, blobs: found.blobs,
	}, nil
}

// explain is what classify is for images on this machine.
func (f LocalImage) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrIncomplete) && f.alone:
		return fmt.Errorf("%s: %w: %v", f.origin, ErrLocal, err) //nolint:errorlint // earlier archives are no cure
	case errors.Is(err, ErrIncomplete):
		return err
	case errors.Is(err, ErrDigest):
		return fmt.Errorf("%s: %w", f.origin, err)
	}
	return fmt.Errorf("%s: %w: %w", f.origin, ErrLocal, err)
}

// complete says which layers of an image are not there, as far as can be known
// without reading them.
func (s *imageSource) complete(layers []pinset.LockedLayer) error {
	if s.blobs == nil {
		return nil
	}
	var lost []string
	for _, l := range layers {
		var r io.ReadCloser
		var err error
		if s.blobs.has(l.Digest) {
			var size int64
			if r, size, err = s.blobs.open(l.Digest); err == nil && size != l.Size {
				return errors.Join(fmt.Errorf("layer %s has %d of %d bytes", l.Digest, size, l.Size), r.Close())
			}
		} else {
			r, err = s.blobs.layer(l.DiffID)
		}
		switch {
		case err == nil:
			err = r.Close()
		case errors.Is(err, ErrIncomplete):
			lost, err = append(lost, l.Digest.String()), nil
		}
		if err != nil {
			return err
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrIncomplete, strings.Join(lost, ", "))
}
