package layout

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ArtifactsVersionText is the content of ArtifactsVersion: image specification, image-layout.md.
const ArtifactsVersionText = `{"imageLayoutVersion":"1.0.0"}`

// refName is the annotation with the name of an artifact in an OCI image layout.
const refName = "org.opencontainers.image.ref.name"

// maxArtifactsIndex is the limit for the index of artifacts in bytes, and maxArtifacts for its entries, of
// 0.5 KiB each.
const (
	maxArtifactsIndex = 4 << 20
	maxArtifacts      = 8_000
)

// Artifact is an OCI artifact under one of its names.
type Artifact struct {
	Name string
	// Manifest is the digest of its manifest, and Size the manifest's size in bytes.
	Manifest  digest.Digest
	Size      int64
	MediaType string
}

// index is an index of the image specification, as libartifact reads it.
type artifactIndex struct {
	SchemaVersion int                  `json:"schemaVersion"`
	MediaType     string               `json:"mediaType"`
	Manifests     []artifactDescriptor `json:"manifests"`
}

type artifactDescriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      digest.Digest     `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
}

// Artifacts returns the artifacts of a lock, once for each of their names.
func Artifacts(locked []pinset.LockedArtifact) (all []Artifact) {
	for _, a := range locked {
		m := a.Manifest()
		for _, name := range a.Names() {
			all = append(all, Artifact{name, m.Digest, m.Size, m.MediaType})
		}
	}
	return all
}

// RenderArtifacts returns the content of ArtifactsIndex for the artifacts of a lock.
func RenderArtifacts(locked []pinset.LockedArtifact) []byte {
	return EncodeArtifacts(Artifacts(locked))
}

// EncodeArtifacts returns the content of ArtifactsIndex: equal artifacts, equal bytes.
func EncodeArtifacts(all []Artifact) []byte {
	index := artifactIndex{
		SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json", Manifests: []artifactDescriptor{},
	}
	for _, a := range all {
		index.Manifests = append(index.Manifests, artifactDescriptor{
			MediaType: a.MediaType, Digest: a.Manifest, Size: a.Size, Annotations: map[string]string{refName: a.Name},
		})
	}
	text, _ := json.Marshal(index) // texts and numbers cannot fail
	return append(text, '\n')
}

// Artifacts reads the index of OCI artifacts; a store may have none.
func (s *Store) Artifacts() ([]Artifact, error) {
	text, err := decode(s, ArtifactsIndex, maxArtifactsIndex, io.ReadAll)
	if err != nil {
		return nil, fault.Ignore(err, fs.ErrNotExist)
	}
	var index artifactIndex
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", ArtifactsIndex, ErrDocument, err)
	}
	if len(index.Manifests) > maxArtifacts {
		return nil, fmt.Errorf("%s: %w: %d artifacts", ArtifactsIndex, ErrTooLarge, len(index.Manifests))
	}
	var all []Artifact
	for i, d := range index.Manifests {
		name := d.Annotations[refName]
		_, err := pinset.ParseReference(name)
		if err == nil {
			err = pinset.CheckDigest("digest", d.Digest)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: manifests[%d]: %w: %w", ArtifactsIndex, i, ErrDocument, err)
		}
		all = append(all, Artifact{name, d.Digest, d.Size, d.MediaType})
	}
	return all, s.countIn(ArtifactsIndex, len(all))
}
