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

	"github.com/pinbox/pinbox/storage/pinset"
)

// blob starts to read a layer. The reader fails at its end if what it gave is
// not the layer.
func blob(ctx context.Context, src imgtypes.ImageSource, l pinset.LockedLayer, read func(int)) (io.ReadCloser, error) {
	rc, _, err := src.GetBlob(ctx, imgtypes.BlobInfo{Digest: l.Digest, Size: l.Size, MediaType: l.MediaType}, none.NoCache)
	if err != nil {
		return nil, classify(ctx, err)
	}
	return &verifier{ctx: ctx, src: rc, want: l, sum: digest.SHA256.Hash(), read: read}, nil
}

// verifier passes a blob on and compares it with its digest and size.
type verifier struct {
	ctx  context.Context
	src  io.ReadCloser
	want pinset.LockedLayer
	sum  hash.Hash
	size int64
	read func(int)
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.src.Read(p)
	v.size += int64(n)
	v.sum.Write(p[:n])
	if v.read != nil {
		v.read(n)
	}
	switch {
	case v.size > v.want.Size:
		return n, fmt.Errorf("blob: %w: more than the %d bytes that the manifest says", ErrDigest, v.want.Size)
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, classify(v.ctx, err)
	case v.size < v.want.Size:
		return n, fmt.Errorf("blob: %w: it ends after %d of %d bytes", ErrDigest, v.size, v.want.Size)
	}
	if got := digest.NewDigest(digest.SHA256, v.sum); got != v.want.Digest {
		return n, fmt.Errorf("blob: %w: it is %s", ErrDigest, got)
	}
	return n, io.EOF
}

func (v *verifier) Close() error { return v.src.Close() }
