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

// blobStore has the blobs of images on this machine.
type blobStore interface {
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

// treeBlobs are blobs that are files of a tree.
type treeBlobs struct {
	tree *Tree
	name func(digest.Digest) string
	// attached are the images beside a manifest that hold its signatures.
	attached map[digest.Digest][]digest.Digest
}

func (m treeBlobs) has(d digest.Digest) bool { return m.tree.Has(m.name(d)) }

func (m treeBlobs) open(d digest.Digest) (io.ReadCloser, int64, error) {
	if !m.has(d) {
		return nil, 0, missing(d)
	}
	return m.tree.Open(m.name(d))
}

func (m treeBlobs) layer(d digest.Digest) (io.ReadCloser, error) { return nil, missing(d) }

func (m treeBlobs) signatures(manifest digest.Digest) (all [][]byte, err error) {
	for _, d := range m.attached[manifest] {
		more, err := attachments(m, d)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// blobStores are asked one after the other.
type blobStores []blobStore

func (p blobStores) has(d digest.Digest) bool {
	return slices.ContainsFunc(p, func(one blobStore) bool { return one.has(d) })
}

func (p blobStores) open(d digest.Digest) (io.ReadCloser, int64, error) {
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

func (p blobStores) layer(diffID digest.Digest) (io.ReadCloser, error) {
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
func (p blobStores) signatures(manifest digest.Digest) (all [][]byte, err error) {
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

// localSource is an image that is read from a blobStore.
type localSource struct {
	blobStore
	ref imgtypes.ImageReference
	top digest.Digest
	// sparse says why an instance is not there.
	sparse error
}

var _ imgtypes.ImageSource = localSource{}

// maxManifest is what containers/image takes of a manifest, in bytes:
// internal/iolimits.
const maxManifest = 4 << 20

func (b localSource) Reference() imgtypes.ImageReference { return b.ref }
func (b localSource) Close() error                       { return nil }
func (b localSource) HasThreadSafeGetBlob() bool         { return true }

func (b localSource) GetManifest(_ context.Context, instance *digest.Digest) ([]byte, string, error) {
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

func (b localSource) GetBlob(
	_ context.Context, want imgtypes.BlobInfo, _ imgtypes.BlobInfoCache,
) (io.ReadCloser, int64, error) {
	if err := want.Digest.Validate(); err != nil {
		return nil, 0, err
	}
	return b.open(want.Digest)
}

// GetSignatures gives those of OpenPGP: a source from outside the library can give
// it no others.
func (b localSource) GetSignatures(_ context.Context, instance *digest.Digest) ([][]byte, error) {
	manifest := b.top
	if instance != nil {
		manifest = *instance
	}
	all, err := b.signatures(manifest)
	return simple(all), err
}

func (b localSource) LayerInfosForCopy(context.Context, *digest.Digest) ([]imgtypes.BlobInfo, error) {
	return nil, nil
}
