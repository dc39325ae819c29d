package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/manifest"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/pinset"
)

// maxArtifactBlobs is the limit for the blobs of an OCI artifact: as many as its entry in the lock can have. A model of
// 40 GB has some tens, a folder that was pushed file by file hundreds.
const maxArtifactBlobs = 4000

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
	var layers []*pinset.LockedLayer
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
		layers = append(layers, &pinset.LockedLayer{Digest: b.Digest, DiffID: b.Digest, Size: b.Size})
	}
	if len(a.Blobs) > maxArtifactBlobs {
		return r, fmt.Errorf("%w: it has %d blobs, and the limit is %d", ErrArtifact, len(a.Blobs), maxArtifactBlobs)
	}
	if err := s.checkLayers(layers); err != nil {
		return r, s.explain(ctx, err)
	}
	return Resolved{Image: r.Image, Manifest: r.Manifest, Artifact: a}, nil
}

// ErrResumed says that a blob differs from its digest, and that an earlier run has fetched a part of it. That part is
// removed, so that the blob can be opened again.
var ErrResumed = errors.New("an earlier run has fetched a part, which may be damaged")

// OpenBlob opens a blob of the OCI artifact. The reader fails at its end if the content does not match the digest
// and the size. reading is called with how far it is, and read with the bytes of each part; both may be nil. If the
// reader is closed earlier, parts keeps what was fetched for the next call.
func (r Resolved) OpenBlob(
	ctx context.Context, c *Client, b pinset.LockedBlob, parts cache.Cache, reading func(Reading), read func(int),
) (io.ReadCloser, error) {
	layer := &pinset.LockedLayer{Digest: b.Digest, DiffID: b.Digest, Size: b.Size}
	read, end := watch(reading, r.Image, layer, read)
	blob := &artifactBlob{keep: true, end: end}
	var err error
	if blob.part, blob.resumes, err = openPartial(parts, layer); err == nil {
		blob.ReadCloser, err = c.openLayer(ctx, r.Image, layer, fetching{part: blob.part, read: read})
	}
	if err != nil {
		return nil, fmt.Errorf("artifact %s: %w", r.Image, errors.Join(err, blob.Close()))
	}
	return blob, nil
}

// artifactBlob is a blob that closes the file with what was fetched of it, too.
type artifactBlob struct {
	io.ReadCloser
	part    *cache.Partial // or nil
	resumes bool           // part was not empty
	keep    bool           // part is of use for the next run
	end     func()         // says that no more of it is read
}

func (b *artifactBlob) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.keep = false
	case errors.Is(err, ErrDigest):
		b.keep = false
		if b.resumes {
			err = fmt.Errorf("%w: %w", ErrResumed, err)
		}
	}
	return n, err
}

func (b *artifactBlob) Close() (err error) {
	b.end()
	if b.ReadCloser != nil {
		_ = b.ReadCloser.Close() // it was only read
	}
	if b.part != nil {
		err = b.part.End(b.keep)
	}
	return err
}
