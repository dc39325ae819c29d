package pinset

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
)

// LockedArtifact is a resolved OCI artifact: what an image specification 1.1 manifest names that is no container
// image, such as a model or a chart.
type LockedArtifact struct {
	// Pin is its name in the store, with the digest of its manifest.
	Pin string `json:"pin"`
	// Tags are the names without a digest by which the inputs refer to it, sorted.
	Tags []string `json:"tags,omitempty"`
	// Type is its artifactType, or the media type of its configuration.
	Type string `json:"type"`
	// From lists the inputs that contain it, such as "PinnedImageSet/worker".
	From []string `json:"from"`
	// Blobs are its manifest, its configuration and its layers, each once.
	Blobs []LockedBlob `json:"blobs"`
}

// LockedBlob is a blob of an OCI artifact.
type LockedBlob struct {
	Digest digest.Digest `json:"digest"`
	// Size in bytes.
	Size      int64  `json:"size"`
	MediaType string `json:"mediaType"`
}

// Names are the pin and the tags.
func (a LockedArtifact) Names() []string { return append([]string{a.Pin}, a.Tags...) }

// Manifest is the blob of its manifest.
func (a LockedArtifact) Manifest() LockedBlob { return a.Blobs[0] }

func (a LockedArtifact) validate() error {
	img, err := ParseImage(a.Pin)
	if err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	for _, tag := range a.Tags {
		if ref, err := ParseReference(tag); err != nil || ref.TagName() != tag {
			return fmt.Errorf("tag %q: %w", tag, cmp.Or(err, ErrBadName))
		}
	}
	if err := checkPrintable("from, type", append([]string{a.Type}, a.From...)...); err != nil {
		return err
	}
	for i, b := range a.Blobs {
		err := CheckDigest("digest", b.Digest)
		if err == nil {
			err = checkPrintable("mediaType", b.MediaType)
		}
		if err == nil && b.Size < 0 {
			err = fmt.Errorf("size %d: negative", b.Size)
		}
		if err != nil {
			return fmt.Errorf("blobs[%d]: %w", i, err)
		}
	}
	if len(a.Blobs) == 0 || a.Blobs[0].Digest != img.Digest {
		return errors.New("blobs: the first is not the manifest of the pin")
	}
	return nil
}

// ArtifactBlobs returns the blobs of the artifacts, each once.
func ArtifactBlobs(artifacts []LockedArtifact) (all []LockedBlob) {
	seen := map[digest.Digest]bool{}
	for _, a := range artifacts {
		for _, b := range a.Blobs {
			if !seen[b.Digest] {
				seen[b.Digest] = true
				all = append(all, b)
			}
		}
	}
	return all
}
