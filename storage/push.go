package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/blobinfocache/none"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/realm"
)

// Why something cannot be pushed.
var (
	ErrDestination = errors.New("not a repository to push to")
	ErrRefused     = errors.New("the registry refuses the manifest")
)

// Upload is a blob that goes to a registry.
type Upload struct {
	Name   string // for messages
	Digest digest.Digest
	Size   int64 // bytes
	Open   func() (io.ReadCloser, error)
}

// Pushed says where something was pushed to.
type Pushed struct {
	// Reference is REGISTRY/REPOSITORY@DIGEST.
	Reference string
	// Sent counts the bytes of the blobs that the registry lacked.
	Sent int64
}

// Push puts blobs and a manifest that names them into a repository, REGISTRY/REPOSITORY or REGISTRY/REPOSITORY:TAG. The
// manifest comes last, so that nobody sees it before its blobs. What the registry has is not sent again. done is called
// with the bytes of each blob that are there; it may be nil.
func Push(
	ctx context.Context, c *Client, to string, manifest []byte, blobs []Upload, done func(int),
) (p Pushed, err error) {
	sum := digest.FromBytes(manifest)
	name, err := destination(to, sum)
	if err != nil {
		return p, err
	}
	dest, err := openDestination(ctx, c.sys, name.String())
	if err != nil {
		return p, err
	}
	defer func() { _ = dest.Close() }() // it has no state
	if done == nil {
		done = func(int) {}
	}
	w := c.remote.waiter(name.Name(), name.String())
	for _, b := range blobs {
		sent, err := w.upload(ctx, dest, b, done)
		p.Sent += sent
		if err != nil {
			return p, fmt.Errorf("%s: %s: %w", name, b.Name, err)
		}
	}
	err = w.request(ctx, func(ctx context.Context) error { return dest.PutManifest(ctx, manifest, nil) })
	var rejected imgtypes.ManifestTypeRejectedError
	switch {
	case errors.As(err, &rejected):
		return p, fmt.Errorf("%s: %w: %w", name, ErrRefused, err)
	case err != nil:
		return p, fmt.Errorf("%s: manifest: %w", name, classify(ctx, err))
	}
	p.Reference = reference.TrimNamed(name).String() + "@" + sum.String()
	return p, nil
}

// destination parses the name of a repository; without a tag, the manifest goes there under its digest.
func destination(to string, manifest digest.Digest) (reference.Named, error) {
	named, err := reference.ParseNamed(to)
	if err != nil {
		return nil, fmt.Errorf("%q: %w: %w", to, ErrDestination, err)
	}
	if _, ok := named.(reference.Digested); ok {
		return nil, fmt.Errorf("%q: %w: the digest comes of what is pushed", to, ErrDestination)
	}
	if reference.IsNameOnly(named) {
		return reference.WithDigest(named, manifest)
	}
	return named, nil
}

func openDestination(
	ctx context.Context, sys *imgtypes.SystemContext, name string,
) (imgtypes.ImageDestination, error) {
	ref, err := dockerReference(name)
	if err != nil {
		return nil, err
	}
	realms, err := realm.Of(sys, ref)
	if err != nil {
		return nil, classify(ctx, err)
	}
	own := *sys
	own.DockerProxy = realms.Proxy
	dest, err := ref.NewImageDestination(ctx, &own)
	if err != nil {
		return nil, classify(ctx, err)
	}
	return dest, nil
}

// upload sends a blob, unless the registry has it, and returns how many bytes were sent. The library asks first, and
// verifies nothing: the verifier does, before the registry gets the last byte.
func (w waiter) upload(
	ctx context.Context, dest imgtypes.ImageDestination, b Upload, done func(int),
) (sent int64, err error) {
	content, err := b.Open()
	if err != nil {
		return 0, err
	}
	defer content.Close()
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(w.limit, func() { cancel(ErrStalled) })
	defer timer.Stop()
	info := imgtypes.BlobInfo{Digest: b.Digest, Size: b.Size}
	checked := &verifier{ctx: ctx, src: content, want: info, sum: digest.SHA256.Hash(),
		explain: func(_ context.Context, err error) error { return err }}
	body := &counter{ReadCloser: checked, read: func(n int) {
		timer.Reset(w.limit)
		sent += int64(n)
		done(n)
	}}
	_, err = dest.PutBlob(limited, body, info, none.NoCache, false)
	switch failed := checked.failed; {
	case err == nil:
		done(int(b.Size - sent))
		return sent, nil
	case failed != nil && !errors.Is(failed, io.EOF):
		return sent, failed
	case ctx.Err() == nil && errors.Is(context.Cause(limited), ErrStalled):
		return sent, fmt.Errorf("%w: %w: %s took nothing for %v", ErrRegistry, ErrStalled, w.host, w.limit)
	}
	return sent, classify(ctx, err)
}

// UploadOf returns a small blob.
func UploadOf(name string, content []byte) Upload {
	return Upload{
		Name: name, Digest: digest.FromBytes(content), Size: int64(len(content)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	}
}
