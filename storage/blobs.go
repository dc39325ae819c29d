package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"
	imgtypes "go.podman.io/image/v5/types"
)

// pool is anything on this machine that has images.
type pool interface {
	// has says whether a blob is there, and open starts to read it and tells its size
	// in bytes. The digests are valid ones.
	has(digest.Digest) bool
	open(digest.Digest) (io.ReadCloser, int64, error)
	// layer is the tar stream of an unpacked layer, by its DiffID.
	layer(digest.Digest) (io.ReadCloser, error)
	// signatures of a manifest, as a store keeps them.
	signatures(digest.Digest) ([][]byte, error)
}

func missing(d digest.Digest) error { return fmt.Errorf("%w: %s", ErrIncomplete, d) }

// members are blobs that are files of a tree.
type members struct {
	tree *Tree
	name func(digest.Digest) string
	// attached are the images beside a manifest that hold its signatures.
	attached map[digest.Digest][]digest.Digest
}

func (m members) has(d digest.Digest) bool { return m.tree.Has(m.name(d)) }

func (m members) open(d digest.Digest) (io.ReadCloser, int64, error) {
	if !m.has(d) {
		return nil, 0, missing(d)
	}
	return m.tree.Open(m.name(d))
}

func (m members) layer(d digest.Digest) (io.ReadCloser, error) { return nil, missing(d) }

func (m members) signatures(manifest digest.Digest) (all [][]byte, err error) {
	for _, d := range m.attached[manifest] {
		more, err := attachments(m, d)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// pools are asked one after the other.
type pools []pool

func (p pools) has(d digest.Digest) bool {
	return slices.ContainsFunc(p, func(one pool) bool { return one.has(d) })
}

func (p pools) open(d digest.Digest) (io.ReadCloser, int64, error) {
	err := missing(d)
	for _, one := range p {
		if !one.has(d) {
			continue
		}
		r, size, failed := one.open(d)
		if failed == nil {
			return r, size, nil
		}
		err = failed
	}
	return nil, 0, err
}

func (p pools) layer(diffID digest.Digest) (io.ReadCloser, error) {
	err := missing(diffID)
	for _, one := range p {
		r, failed := one.layer(diffID)
		if failed == nil {
			return r, nil
		}
		if !errors.Is(failed, ErrIncomplete) {
			err = failed
		}
	}
	return nil, err
}

// signatures are those that any has: a store of images has them, if they were carried
// there, and then nobody needs the images that cosign put beside.
func (p pools) signatures(manifest digest.Digest) (all [][]byte, err error) {
	for _, one := range p {
		more, err := one.signatures(manifest)
		if errors.Is(err, ErrIncomplete) && len(p) > 1 {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// blobs is an image out of a pool.
type blobs struct {
	pool
	ref imgtypes.ImageReference
	top digest.Digest
	// sparse says why an instance is not there.
	sparse error
}

var _ imgtypes.ImageSource = blobs{}

// maxManifest is what containers/image takes of a manifest, in bytes:
// internal/iolimits.
const maxManifest = 4 << 20

func (b blobs) Reference() imgtypes.ImageReference { return b.ref }
func (b blobs) Close() error                       { return nil }
func (b blobs) HasThreadSafeGetBlob() bool         { return true }

func (b blobs) GetManifest(_ context.Context, instance *digest.Digest) ([]byte, string, error) {
	want := b.top
	if instance != nil {
		want = *instance
	}
	if err := want.Validate(); err != nil {
		return nil, "", err
	}
	r, _, err := b.open(want)
	if errors.Is(err, ErrIncomplete) && instance != nil && b.sparse != nil {
		err = fmt.Errorf("%w: %w", b.sparse, err)
	}
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, maxManifest))
	return content, manifest.GuessMIMEType(content), err
}

func (b blobs) GetBlob(_ context.Context, want imgtypes.BlobInfo, _ imgtypes.BlobInfoCache) (io.ReadCloser, int64, error) {
	if err := want.Digest.Validate(); err != nil {
		return nil, 0, err
	}
	return b.open(want.Digest)
}

// GetSignatures gives those of OpenPGP: a source from outside the library can give
// it no others.
func (b blobs) GetSignatures(_ context.Context, instance *digest.Digest) ([][]byte, error) {
	manifest := b.top
	if instance != nil {
		manifest = *instance
	}
	all, err := b.signatures(manifest)
	return simple(all), err
}

func (b blobs) LayerInfosForCopy(context.Context, *digest.Digest) ([]imgtypes.BlobInfo, error) {
	return nil, nil
}
