package pinset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker/reference"

	"github.com/pinbox/pinbox/storage/fault"
)

// Errors in the name of an image.
var (
	ErrNotPinned = fault.New(fault.Input, "not a digest reference",
		"pin it as repository@sha256:…; `skopeo inspect docker://NAME` shows the digest of a tag")
	ErrShortName = fault.New(fault.Input, "not the full name",
		"write the full name; CRI-O does not pin short names")
	ErrBadName = fault.New(fault.Input, "not a valid image reference",
		"write it as registry/path@sha256:… or, where tags are taken, registry/path:tag")
)

// Image is an image reference with a digest. CRI-O pins an image if one of its names in the store
// equals the pin byte for byte, so an Image has exactly one spelling.
type Image struct {
	// Repository includes the registry's host, as in "quay.io/openshift/ose-cli".
	Repository string
	// Digest of the manifest, or of the index of manifests.
	Digest digest.Digest
}

// ParseImage reads "host/path@sha256:…". index.docker.io is docker.io.
func ParseImage(s string) (Image, error) {
	s = dockerHub(s)
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w (%w)", s, ErrBadName, err)
	}
	digested, ok := named.(reference.Digested)
	if !ok {
		return Image{}, fmt.Errorf("image %q: %w", s, ErrNotPinned)
	}
	if _, tagged := named.(reference.Tagged); tagged {
		return Image{}, fmt.Errorf("image %q: %w: it has a tag too, and CRI-O does not pin such a name", s, ErrNotPinned)
	}
	if algorithm := digested.Digest().Algorithm(); algorithm != digest.SHA256 {
		return Image{}, fmt.Errorf("image %q: %w by sha256: it is by %s", s, ErrNotPinned, algorithm)
	}
	img := Image{Repository: named.Name(), Digest: digested.Digest()}
	if img.String() != s {
		return Image{}, shortName(s, img.String())
	}
	return img, nil
}

// String returns the pin.
func (i Image) String() string { return i.Repository + "@" + i.Digest.String() }

// Union returns all images of the sets, each once, sorted by their pins.
func Union(sets ...Set) []Image {
	var all []Image
	for _, s := range sets {
		all = append(all, s.Images...)
	}
	slices.SortFunc(all, func(a, b Image) int {
		if a.Repository == b.Repository {
			return strings.Compare(string(a.Digest), string(b.Digest))
		}
		return strings.Compare(a.String(), b.String())
	})
	return slices.Compact(all)
}
