package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pinbox/pinbox/storage/pinset"
)

// PushedScheme begins the names of artifacts that `pinbox push` makes: oci://REGISTRY/REPOSITORY@sha256:…
const PushedScheme = "oci://"

// PushedType is the type of the OCI artifact that `pinbox push` makes of a folder, and pushedFile the media type of its
// files.
const (
	PushedType = "application/vnd.pinbox.store.v1"
	pushedFile = "application/vnd.pinbox.file.v1"
)

// Limits of such an artifact: its manifest in bytes, as registries have it, and its files.
const (
	MaxPushed      = 4 << 20
	maxPushedFiles = 32
)

// ErrNotPushed is the error for an artifact that `pinbox push` has not made.
var ErrNotPushed = errors.New("not an artifact that `pinbox push` made")

// PushedFile is a file of a folder that was pushed.
type PushedFile struct {
	Name   string
	Digest digest.Digest
	Size   int64 // bytes
}

// EmptyConfig is the configuration of such an artifact, which is a blob like the files: image specification,
// manifest.md, guidance for an empty descriptor.
func EmptyConfig() (content []byte) { return slices.Clone(imgspecv1.DescriptorEmptyJSON.Data) }

// EncodePushed returns the manifest of an artifact of some files. Equal files give equal bytes.
func EncodePushed(files []PushedFile) ([]byte, error) {
	config := imgspecv1.DescriptorEmptyJSON
	config.Data = nil // the blob is there
	m := imgspecv1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageManifest,
		ArtifactType: PushedType, Config: config,
	}
	for _, f := range slices.SortedFunc(slices.Values(files), func(a, b PushedFile) int {
		return strings.Compare(a.Name, b.Name)
	}) {
		m.Layers = append(m.Layers, imgspecv1.Descriptor{
			MediaType: pushedFile, Digest: f.Digest, Size: f.Size,
			Annotations: map[string]string{imgspecv1.AnnotationTitle: f.Name},
		})
	}
	return json.Marshal(m)
}

// DecodePushed returns the files of an artifact by its manifest, sorted by name. An artifact of another type, a name
// that is not one of a file in a folder, or is repeated, and other digests than SHA-256 are errors.
func DecodePushed(manifest []byte) ([]PushedFile, error) {
	var m imgspecv1.Manifest
	if err := json.NewDecoder(bytes.NewReader(manifest)).Decode(&m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPushed, err)
	}
	switch {
	case m.ArtifactType != PushedType:
		return nil, fmt.Errorf("%w: its type is %q, not %q", ErrNotPushed, m.ArtifactType, PushedType)
	case len(m.Layers) > maxPushedFiles:
		return nil, fmt.Errorf("%w: it has %d files", ErrNotPushed, len(m.Layers))
	}
	var files []PushedFile
	for i, l := range m.Layers {
		f := PushedFile{l.Annotations[imgspecv1.AnnotationTitle], l.Digest, l.Size}
		if err := f.validate(); err != nil {
			return nil, fmt.Errorf("%w: layers[%d]: %w", ErrNotPushed, i, err)
		}
		if slices.ContainsFunc(files, func(o PushedFile) bool { return o.Name == f.Name }) {
			return nil, fmt.Errorf("%w: layers[%d]: name %q: repeated", ErrNotPushed, i, f.Name)
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b PushedFile) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

func (f PushedFile) validate() error {
	switch {
	case f.Name == "" || strings.HasPrefix(f.Name, ".") || strings.ContainsAny(f.Name, "/\\\x00"),
		!pinset.Printable(f.Name):
		return fmt.Errorf("name %q: not the name of a file in a folder", f.Name)
	case f.Size < 0:
		return fmt.Errorf("size %d: below 0", f.Size)
	}
	return pinset.CheckDigest("digest", f.Digest)
}

// FindPushedStore returns the store among the files of an artifact.
func FindPushedStore(files []PushedFile) (PushedFile, error) {
	for _, name := range AttachableStores() {
		if i := slices.IndexFunc(files, func(f PushedFile) bool { return f.Name == name }); i >= 0 {
			return files[i], nil
		}
	}
	return PushedFile{}, fmt.Errorf("%w: it has no store", ErrNotPushed)
}

// AttachableStores returns the names of the stores that a node can attach, in the order in which they are looked for
// in a folder.
func AttachableStores() []string { return []string{DeltaStoreFile, ThinStoreFile, StoreFile} }
