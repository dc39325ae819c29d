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
	"golang.org/x/sync/semaphore"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/pinset"
)

// GetBlob opens a blob: a layer or a configuration. The reader fails at its end if the content does
// not match the digest and size of want.
func (s *imageSource) GetBlob(
	ctx context.Context, want imgtypes.BlobInfo, cache imgtypes.BlobInfoCache,
) (io.ReadCloser, int64, error) {
	if s.isRemote() {
		return s.verify(ctx, s.resume(ctx, want, nil), want), want.Size, nil
	}
	rc, size, err := s.ImageSource.GetBlob(ctx, want, cache)
	if err != nil {
		return nil, 0, s.explain(ctx, err)
	}
	return s.verify(ctx, rc, want), size, nil
}

func (s *imageSource) verify(ctx context.Context, rc io.ReadCloser, want imgtypes.BlobInfo) *verifier {
	algorithm := digest.SHA256
	if want.Digest.Validate() == nil { // else no content matches it
		algorithm = want.Digest.Algorithm()
	}
	return &verifier{ctx: ctx, src: rc, want: want, algorithm: algorithm, sum: algorithm.Hash(), explain: s.explain}
}

// fetching says how a blob is fetched from a registry. The zero value uses one connection.
type fetching struct {
	// part has the bytes that were fetched earlier, and gets the others; it may be nil.
	part *cache.Partial
	// connections are more connections, whose bytes are in the folder tmp until they are read; it may be nil.
	connections *semaphore.Weighted
	tmp         string
	// read is called with the bytes of each part of the blob; it may be nil.
	read func(int)
}

// openLayer opens a layer of an image. If this machine has only the unpacked layer, openLayer opens that
// and verifies its DiffID.
func (c *Client) openLayer(
	ctx context.Context, img pinset.Image, l *pinset.LockedLayer, how fetching,
) (io.ReadCloser, error) {
	src, err := c.open(ctx, img)
	if err != nil {
		return nil, err
	}
	blob, err := src.layer(ctx, l, how)
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return &sourced{blob, src}, nil
}

// sourced is a blob that closes its source, too.
type sourced struct {
	io.ReadCloser
	src *imageSource
}

func (s *sourced) Close() error { return errors.Join(s.ReadCloser.Close(), s.src.Close()) }

func (s *imageSource) layer(ctx context.Context, l *pinset.LockedLayer, how fetching) (io.ReadCloser, error) {
	read := how.read
	if read == nil {
		read = func(int) {}
	}
	if s.blobs != nil && !s.blobs.has(l.Digest) {
		rc, err := s.blobs.layer(l.DiffID)
		if err != nil {
			return nil, s.explain(ctx, err)
		}
		read(int(l.Size)) // all at once: the sizes of its parts are not sizes of the blob
		return s.verify(ctx, rc, imgtypes.BlobInfo{Digest: l.DiffID, Size: -1}), nil
	}
	want := imgtypes.BlobInfo{Digest: l.Digest, Size: l.Size, MediaType: l.MediaType}
	if s.isRemote() {
		blob := s.resume(ctx, want, how.part)
		if blob.tmp = how.tmp; how.connections != nil {
			blob.extra = newExtra(ctx, how.connections)
		}
		return &counter{ReadCloser: s.verify(ctx, blob, want), read: read}, nil
	}
	rc, _, err := s.GetBlob(ctx, want, none.NoCache)
	if err != nil {
		return nil, err
	}
	return &counter{ReadCloser: rc, read: read}, nil
}

// verifier reads a blob and compares it with its digest and size.
type verifier struct {
	ctx  context.Context
	src  io.ReadCloser
	want imgtypes.BlobInfo // a size of -1 is unknown
	// algorithm is that of the digest, and sum what was read.
	algorithm digest.Algorithm
	sum       hash.Hash
	size      int64
	// failed is the error of the last Read, io.EOF included.
	failed error
	// explain adds the sentinel of this package to an error of the library.
	explain func(context.Context, error) error
}

// Read repeats its error: the library's readers return another one when they are read again.
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
		return n, v.explain(v.ctx, fmt.Errorf("blob: %w: more than the %d bytes of its descriptor", ErrDigest,
			v.want.Size))
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, v.explain(v.ctx, err)
	case v.size < v.want.Size:
		return n, v.explain(v.ctx, fmt.Errorf("blob: %w: it ends after %d of %d bytes", ErrDigest, v.size, v.want.Size))
	}
	if got := digest.NewDigest(v.algorithm, v.sum); got != v.want.Digest {
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
