package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/pinset"
)

// maxArtifactBlobs is the limit for the blobs of an OCI artifact. A model of 40 GB has some tens.
const maxArtifactBlobs = 1000

// artifactType returns the type of an OCI artifact; "" for a container image. CRI-O takes for one what has another
// configuration than an image: internal/ociartifact/store.go, EnsureNotContainerImage.
func artifactType(config string, text []byte) string {
	switch config {
	case "", imgspecv1.MediaTypeImageConfig, manifest.DockerV2Schema2ConfigMediaType:
		return ""
	}
	var m struct {
		ArtifactType string `json:"artifactType"`
	}
	if err := json.Unmarshal(text, &m); err == nil && m.ArtifactType != "" {
		return m.ArtifactType
	}
	return config
}

// artifact describes an OCI artifact.
func (s *imageSource) artifact(
	ctx context.Context, parsed imgtypes.Image, r Resolved, kind string,
) (Resolved, error) {
	if r.Index != nil {
		return r, fmt.Errorf("%w: it is an index of OCI artifacts; name the manifest of one", ErrNotImage)
	}
	_, mediaType, err := parsed.Manifest(ctx)
	if err != nil {
		return r, err
	}
	a := &pinset.LockedArtifact{Pin: r.Pin, Type: kind, Blobs: []pinset.LockedBlob{
		{Digest: r.LockedImage.Manifest, Size: int64(len(r.Manifest)), MediaType: mediaType},
	}}
	var layers []pinset.LockedLayer
	seen := map[digest.Digest]bool{r.LockedImage.Manifest: true}
	for _, b := range append([]imgtypes.BlobInfo{parsed.ConfigInfo()}, parsed.LayerInfos()...) {
		if b.Digest.Validate() != nil || b.Digest.Algorithm() != digest.SHA256 || b.Size < 0 {
			return r, fmt.Errorf("%w: it has a blob with the digest %q and the size %d", ErrNotImage, b.Digest, b.Size)
		}
		if seen[b.Digest] {
			continue
		}
		seen[b.Digest] = true
		a.Blobs = append(a.Blobs, pinset.LockedBlob{Digest: b.Digest, Size: b.Size, MediaType: b.MediaType})
		layers = append(layers, pinset.LockedLayer{Digest: b.Digest, DiffID: b.Digest, Size: b.Size})
	}
	if len(a.Blobs) > maxArtifactBlobs {
		return r, fmt.Errorf("%w: it has %d blobs, and the limit is %d", ErrLayers, len(a.Blobs), maxArtifactBlobs)
	}
	if err := s.checkLayers(layers); err != nil {
		return r, s.explain(ctx, err)
	}
	return Resolved{Image: r.Image, Manifest: r.Manifest, Artifact: a}, nil
}

// OpenBlob opens a blob of the OCI artifact. The reader fails at its end if the content does not match the digest
// and the size. read is called with the bytes of each part; it may be nil.
func (r Resolved) OpenBlob(
	ctx context.Context, c *Client, b pinset.LockedBlob, read func(int),
) (io.ReadCloser, error) {
	if read == nil {
		read = func(int) {}
	}
	src, err := c.open(ctx, r.Image)
	if err != nil {
		return nil, fmt.Errorf("artifact %s: %w", r.Image, err)
	}
	blob, err := src.layer(ctx, pinset.LockedLayer{Digest: b.Digest, DiffID: b.Digest, Size: b.Size}, nil, read)
	if err != nil {
		_ = src.Close() // nothing was written to it
		return nil, fmt.Errorf("artifact %s: %w", r.Image, err)
	}
	return sourcedBlob{blob, src}, nil
}

// sourcedBlob is a blob that closes its source, too.
type sourcedBlob struct {
	io.ReadCloser
	src io.Closer
}

func (b sourcedBlob) Close() error {
	_ = b.ReadCloser.Close() // nothing was written to either
	return b.src.Close()
}
