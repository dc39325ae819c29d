package storage

import (
	"context"
	"io"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"
	imgtypes "go.podman.io/image/v5/types"
)

// pool is anything that has blobs by their digests.
type pool struct {
	open func(digest.Digest) (io.ReadCloser, int64, error)
	has  func(digest.Digest) bool
	// layer gives the tar stream of an unpacked layer by its DiffID; nil where there
	// are none.
	layer func(digest.Digest) (io.ReadCloser, error)
	// signatures of a manifest, as a store keeps them; nil where there are none.
	signatures func(digest.Digest) ([][]byte, error)
}

func (p *pool) hasLayer(diffID digest.Digest) bool {
	if p.layer == nil {
		return false
	}
	r, err := p.layer(diffID)
	return err == nil && r.Close() == nil
}

// blobs is an image out of a pool.
type blobs struct {
	*pool
	ref imgtypes.ImageReference
	top digest.Digest
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
	all, err := b.signed(manifest)
	return simple(all), err
}

func (b blobs) LayerInfosForCopy(context.Context, *digest.Digest) ([]imgtypes.BlobInfo, error) {
	return nil, nil
}
