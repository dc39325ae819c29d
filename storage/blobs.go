package storage

import (
	"context"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"
	imgtypes "go.podman.io/image/v5/types"
)

// blobs is an image source over anything that has blobs by their digests.
type blobs struct {
	ref  imgtypes.ImageReference
	top  digest.Digest
	open func(digest.Digest) (io.ReadCloser, int64, error)
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
	r, _, err := b.open(want)
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, maxManifest))
	return content, manifest.GuessMIMEType(content), err
}

func (b blobs) GetBlob(_ context.Context, want imgtypes.BlobInfo, _ imgtypes.BlobInfoCache) (io.ReadCloser, int64, error) {
	return b.open(want.Digest)
}

func (b blobs) GetSignatures(context.Context, *digest.Digest) ([][]byte, error) { return nil, nil }

func (b blobs) LayerInfosForCopy(context.Context, *digest.Digest) ([]imgtypes.BlobInfo, error) {
	return nil, nil
}

// span is a member of a tar file, in bytes.
type span struct{ offset, size int64 }

func (s span) read(f *os.File) io.ReadCloser {
	return io.NopCloser(io.NewSectionReader(f, s.offset, s.size))
}
