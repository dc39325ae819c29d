package storage

import (
	"context"
	"encoding/json"
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

	bounded "github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Reasons why an image on this machine cannot be read.
var (
	ErrLocal = fault.New(fault.Damaged, "local image is damaged or incomplete",
		"copy it there again from an intact copy")
	ErrIncomplete = fault.New(fault.Input, "some of its blobs are missing",
		"add the archives of earlier runs to the paths, with all their parts, or a store that has the images; an "+
			"archive of oc-mirror contains only what was new in its run")
	ErrForeign = fault.New(fault.Input, "a foreign layer is not beside its image",
		"push or save the image again with this layer: pinbox fetches nothing from the URLs of a manifest")
	ErrWrongKind = fault.New(fault.Input, "wrong kind of input",
		"`pinbox build --help` shows which flag takes what")
)

// LocalImage is an image on this machine.
type LocalImage struct {
	// Name in the source; "" for none.
	Name string
	// Digest of its manifest, or of its index.
	Digest digest.Digest
	blobs  blobStore
	// selfContained is true if all blobs must be in this source: if one is missing, the image is
	// damaged.
	selfContained bool
	// origin is the file or folder, for messages.
	origin string
	// sparse is the reason why instances of its index may be missing; nil if none may.
	sparse error
	// other is true for what belongs to an image, as a signature does.
	other bool
}

// IsImage reports whether this is an image, and not a signature, a bill of materials, a chart or a file beside images.
// It reads the manifest; one that cannot be read counts as an image, whose error is reported when it is resolved.
func (f LocalImage) IsImage() bool {
	if f.other {
		return false
	}
	r, _, err := f.blobs.open(f.Digest)
	if err != nil {
		return true
	}
	defer r.Close()
	content, err := readManifest(r, f.Digest.String())
	if err != nil || digest.FromBytes(content) != f.Digest {
		return true
	}
	var m struct {
		Config  struct{ MediaType string }
		Subject *struct{}
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return true
	}
	return m.Subject == nil && artifactType(m.Config.MediaType, content) == ""
}

// IsOther reports whether the source says that this belongs to an image.
func (f LocalImage) IsOther() bool { return f.other }

// WithSparseIndex returns the image with a reason why instances of its index may be missing.
func (f LocalImage) WithSparseIndex(reason error) LocalImage {
	f.sparse = reason
	return f
}

// WithDigest returns another image of the same source, by the digest of its manifest, and whether
// the source has it.
func (f LocalImage) WithDigest(d digest.Digest) (LocalImage, bool) {
	found := f.Digest == d || f.blobs.has(d)
	f.Digest = d
	return f, found
}

// Path returns the file or folder with the image.
func (f LocalImage) Path() string { return f.origin }

// ReadLayout lists the images of a folder of the OCI image layout.
func ReadLayout(dir string) ([]LocalImage, error) {
	switch fi, err := stat(dir); {
	case err != nil:
		return nil, err
	case !fi.IsDir():
		return nil, fmt.Errorf("%s: %w: a file is not an OCI layout; is it an archive?", dir, ErrWrongKind)
	case !exists(filepath.Join(dir, imgspecv1.ImageLayoutFile)) && !exists(filepath.Join(dir, imgspecv1.ImageIndexFile)):
		return nil, fmt.Errorf("%s: %w: it has no %s, as an OCI layout has", dir, ErrWrongKind, imgspecv1.ImageIndexFile)
	}
	all, err := ociImages(folder(dir), dir)
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w", dir, damagedLocal(err))
	}
	return all, nil
}

// transports are the prefixes of paths in other tools.
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

// AddLocal makes the client read an image from this machine instead of its registry.
func (c *Client) AddLocal(img pinset.Image, found LocalImage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.local[img] = found
}

// IsLocal reports whether AddLocal has named an image.
func (c *Client) IsLocal(img pinset.Image) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.local[img]
	return ok
}

// openLocal returns nil for an image that AddLocal has not named.
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

// explain adds the sentinel and the file to an error, as classify does for a registry.
func (f LocalImage) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrForeign):
		return fmt.Errorf("%s: %w", f.origin, err)
	case errors.Is(err, ErrIncomplete) && f.selfContained:
		return fmt.Errorf("%s: %w: %v", f.origin, ErrLocal, err) //nolint:errorlint // earlier archives are no cure
	case errors.Is(err, ErrIncomplete):
		return err
	case errors.Is(err, ErrDigest):
		return fmt.Errorf("%s: %w", f.origin, err)
	}
	return fmt.Errorf("%s: %w", f.origin, damagedLocal(err))
}

// damagedLocal adds ErrLocal to an error, unless the image is intact, and just not one that pinbox takes.
func damagedLocal(err error) error {
	if errors.Is(err, ErrNotImage) || errors.Is(err, bounded.ErrTooLarge) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLocal, err)
}

// checkLayers checks that an image on this machine has all layers, without reading them. The error
// ErrIncomplete names those that are missing.
func (s *imageSource) checkLayers(layers []*pinset.LockedLayer) error {
	if s.blobs == nil {
		return nil
	}
	var absent []string
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
		case isForeign(l) && errors.Is(err, ErrIncomplete):
			err = fault.Wrap(ErrForeign, err)
		case errors.Is(err, ErrIncomplete):
			absent, err = append(absent, l.Digest.String()), nil
		}
		if err != nil {
			return err
		}
	}
	if len(absent) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrIncomplete, strings.Join(absent, ", "))
}

// isForeign reports whether a registry need not have a layer, since the manifest has URLs for it.
func isForeign(l *pinset.LockedLayer) bool {
	return strings.Contains(l.MediaType, ".foreign.") || strings.Contains(l.MediaType, ".nondistributable.")
}
