package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/blobinfocache/none"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/tail"
)

// Pushed is an artifact that `pinbox push` made.
type Pushed struct {
	// Files of the artifact, sorted by name.
	Files []layout.PushedFile
	src   imgtypes.ImageSource
}

// ParsePushed parses the name of an artifact, REGISTRY/REPOSITORY with a tag, a digest, or both. With a digest, the
// tag does not count, and pinned is true.
func ParsePushed(name string) (ref reference.Named, pinned bool, err error) {
	if ref, err = reference.ParseNamed(strings.TrimPrefix(name, layout.PushedScheme)); err != nil {
		return nil, false, err
	}
	if digested, ok := ref.(reference.Digested); ok {
		if err := pinset.CheckDigest("digest", digested.Digest()); err != nil {
			return nil, false, err
		}
		ref, err = reference.WithDigest(reference.TrimNamed(ref), digested.Digest())
		return ref, true, err
	}
	if reference.IsNameOnly(ref) {
		return nil, false, errors.New("it has neither a digest nor a tag")
	}
	return ref, false, nil
}

// OpenPushed reads the manifest of an artifact, and compares it with the digest in the name. The caller closes the
// result.
func (c Client) OpenPushed(ctx context.Context, name string) (_ *Pushed, err error) {
	ref, pinned, err := ParsePushed(name)
	if err != nil {
		return nil, err
	}
	sys, err := c.system(pinset.Image{Repository: ref.Name()})
	if err != nil {
		return nil, err
	}
	src, err := open(ctx, sys, ref)
	if err != nil {
		return nil, err
	}
	p := &Pushed{src: src}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	manifest, _, err := src.GetManifest(ctx, nil)
	if err != nil {
		return nil, err
	}
	if got := digest.FromBytes(manifest); pinned && got != ref.(reference.Digested).Digest() {
		return nil, fmt.Errorf("%w: the manifest is %s", ErrDigest, got)
	}
	if len(manifest) > layout.MaxPushed {
		return nil, fmt.Errorf("%w: its manifest has %d bytes", layout.ErrNotPushed, len(manifest))
	}
	p.Files, err = layout.DecodePushed(manifest)
	return p, err
}

// Open opens a file behind its first bytes. What it gives is not compared with the digest.
func (p *Pushed) Open(ctx context.Context, f layout.PushedFile, from int64) (io.ReadCloser, error) {
	want := imgtypes.BlobInfo{Digest: f.Digest, Size: f.Size}
	if from > 0 {
		body, err := tail.Open(ctx, p.src, want, from, f.Size)
		if !errors.Is(err, tail.ErrNoRange) {
			return body, err
		}
	}
	body, _, err := p.src.GetBlob(ctx, want, none.NoCache)
	if err == nil && from > 0 {
		if _, err = io.CopyN(io.Discard, body, from); err != nil {
			_ = body.Close() // nothing was written
		}
	}
	return body, err
}

// Text reads a small file, and compares it with its digest.
func (p *Pushed) Text(ctx context.Context, f layout.PushedFile) ([]byte, error) {
	body, err := p.Open(ctx, f, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, f.Size+1))
	if err == nil && digest.FromBytes(text) != f.Digest {
		err = fmt.Errorf("%s: %w", f.Name, ErrDigest)
	}
	return text, err
}

// Close ends the use of the artifact.
func (p *Pushed) Close() { _ = p.src.Close() } // nothing was written
