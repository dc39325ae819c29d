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

	"github.com/pinbox/pinbox/storage/fault"
)

// blobStore has the blobs of images on this machine.
type blobStore interface {
	// has reports whether the store has a blob. The digest must be valid.
	has(digest.Digest) bool
	// open opens a blob and returns its size in bytes. The digest must be valid.
	open(digest.Digest) (io.ReadCloser, int64, error)
	// layer opens the tar stream of an unpacked layer, by its DiffID.
	layer(digest.Digest) (io.ReadCloser, error)
	// signatures returns the signatures of a manifest, as containers/storage stores them.
	signatures(digest.Digest) ([][]byte, error)
}

func missing(d digest.Digest) error { return fmt.Errorf("%w: %s", ErrIncomplete, d) }

// treeBlobs has blobs that are files of a tree.
type treeBlobs struct {
	tree *Tree
	name func(digest.Digest) string
	// attached has, by the digest of a manifest, the images with its signatures.
	attached map[digest.Digest][]digest.Digest
}

func (b treeBlobs) has(d digest.Digest) bool { return b.tree.Has(b.name(d)) }

func (b treeBlobs) open(d digest.Digest) (io.ReadCloser, int64, error) {
	if !b.has(d) {
		return nil, 0, missing(d)
	}
	return b.tree.Open(b.name(d))
}

func (b treeBlobs) layer(d digest.Digest) (io.ReadCloser, error) { return nil, missing(d) }

func (b treeBlobs) signatures(manifest digest.Digest) (all [][]byte, err error) {
	for _, d := range b.attached[manifest] {
		more, err := attachedSignatures(b, d)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// blobStores has the blobs of several stores; the first one that has a blob is used.
type blobStores []blobStore

func (all blobStores) has(d digest.Digest) bool {
	return slices.ContainsFunc(all, func(one blobStore) bool { return one.has(d) })
}

func (all blobStores) open(d digest.Digest) (io.ReadCloser, int64, error) {
	err := missing(d)
	for _, one := range all {
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

func (all blobStores) layer(diffID digest.Digest) (io.ReadCloser, error) {
	err := missing(diffID)
	for _, one := range all {
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

// signatures returns the signatures in any of the stores. An image store has them with the image,
// so that cosign's image of signatures may be missing.
func (all blobStores) signatures(manifest digest.Digest) (signatures [][]byte, err error) {
	for _, one := range all {
		more, err := one.signatures(manifest)
		if errors.Is(err, ErrIncomplete) && len(all) > 1 {
			continue
		}
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, more...)
	}
	return signatures, nil
}

// localSource is an image that is read from a blobStore.
type localSource struct {
	blobStore
	ref imgtypes.ImageReference
	top digest.Digest
	// sparse is the reason why instances may be missing; nil if none may.
	sparse error
}

var _ imgtypes.ImageSource = localSource{}

// maxManifest is the largest manifest, index or configuration that containers/image reads, and that
// registries take, in bytes: internal/iolimits.
const maxManifest = 4 << 20

// readManifest reads a document of at most maxManifest bytes.
func readManifest(r io.Reader, name string) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if len(content) > maxManifest {
		return nil, fmt.Errorf("%w: %s has more than %d bytes, the limit of registries for a manifest or an index",
			ErrNotImage, name, maxManifest)
	}
	return content, err
}

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
		err = fault.Wrap(b.sparse, err)
	}
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	content, err := readManifest(r, want.String())
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

// GetSignatures returns the signatures of OpenPGP: the interface by which a source returns others
// is internal to the library.
func (b localSource) GetSignatures(_ context.Context, instance *digest.Digest) ([][]byte, error) {
	manifest := b.top
	if instance != nil {
		manifest = *instance
	}
	all, err := b.signatures(manifest)
	return openPGP(all), err
}

func (b localSource) LayerInfosForCopy(context.Context, *digest.Digest) ([]imgtypes.BlobInfo, error) {
	return nil, nil
}
