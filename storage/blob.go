package storage

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/pkg/blobinfocache/none"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/pinset"
)

// GetBlob starts to read a blob: a layer or a configuration. The reader fails at
// its end if what it gave is not what was asked for.
func (s *imageSource) GetBlob(
	ctx context.Context, want imgtypes.BlobInfo, cache imgtypes.BlobInfoCache,
) (io.ReadCloser, int64, error) {
	if s.remote {
		return s.verify(ctx, s.resume(ctx, want, nil), want), want.Size, nil
	}
	rc, size, err := s.ImageSource.GetBlob(ctx, want, cache)
	if err != nil {
		return nil, 0, s.explain(ctx, err)
	}
	return s.verify(ctx, rc, want), size, nil
}

func (s *imageSource) verify(ctx context.Context, rc io.ReadCloser, want imgtypes.BlobInfo) *verifier {
	return &verifier{ctx: ctx, src: rc, want: want, sum: digest.SHA256.Hash(), explain: s.explain}
}

// layer starts to read a layer; read is called with the bytes of each part. Where
// only the unpacked layer is left, that is what comes: it is judged by its DiffID. part
// has what was fetched of it earlier, and gets the rest; it may be nil.
func (s *imageSource) layer(
	ctx context.Context, l pinset.LockedLayer, part *cache.Partial, read func(int),
) (io.ReadCloser, error) {
	if s.blobs != nil && !s.blobs.has(l.Digest) {
		rc, err := s.blobs.layer(l.DiffID)
		if err != nil {
			return nil, s.explain(ctx, err)
		}
		read(int(l.Size)) // in all, since its parts are not those of the blob
		return s.verify(ctx, rc, imgtypes.BlobInfo{Digest: l.DiffID, Size: -1}), nil
	}
	want := imgtypes.BlobInfo{Digest: l.Digest, Size: l.Size, MediaType: l.MediaType}
	if s.remote {
		return &counter{ReadCloser: s.verify(ctx, s.resume(ctx, want, part), want), read: read}, nil
	}
	rc, _, err := s.GetBlob(ctx, want, none.NoCache)
	if err != nil {
		return nil, err
	}
	return &counter{ReadCloser: rc, read: read}, nil
}

// verifier passes a blob on and compares it with its digest and size.
type verifier struct {
	ctx  context.Context
	src  io.ReadCloser
	want imgtypes.BlobInfo // its size may be unknown: -1
	sum  hash.Hash
	size int64
	// failed is what it ended with.
	failed error
	// explain gives an error of the library its kind.
	explain func(context.Context, error) error
}

// Read ends with what it ended with before: the library's readers have something else
// to say then.
func (v *verifier) Read(p []byte) (int, error) {
	if v.failed != nil {
		return 0, v.failed
	}
	n, err := v.read(p)
	v.failed = err
	return n, err
}

func (v *verifier) read(p []byte) (int, error) {
	n, err := v.src.Read(p)
	v.size += int64(n)
	v.sum.Write(p[:n])
	switch {
	case v.want.Size >= 0 && v.size > v.want.Size:
		return n, v.explain(v.ctx, fmt.Errorf("blob: %w: more than the %d bytes that the manifest says", ErrDigest,
			v.want.Size))
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, v.explain(v.ctx, err)
	case v.size < v.want.Size:
		return n, v.explain(v.ctx, fmt.Errorf("blob: %w: it ends after %d of %d bytes", ErrDigest, v.size, v.want.Size))
	}
	if got := digest.NewDigest(digest.SHA256, v.sum); got != v.want.Digest {
		return n, v.explain(v.ctx, fmt.Errorf("blob: %w: it is %s, not %s", ErrDigest, got, v.want.Digest))
	}
	return n, io.EOF
}

func (v *verifier) Close() error { return v.src.Close() }

type counter struct {
	io.ReadCloser
	read func(int)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read(n)
	return n, err
}
