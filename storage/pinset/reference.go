package pinset

import (
	"cmp"
	"fmt"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker/reference"
)

// Reference names an image as people do: by tag, or by digest.
type Reference struct {
	// Repository with the registry's host.
	Repository string
	// Tag is "" where there is none.
	Tag string
	// Digest counts, if there are both.
	Digest digest.Digest
}

// ParseReference reads "host/path", "host/path:tag", "host/path@sha256:…" or both.
// One without tag and digest has the tag latest, as everywhere.
func ParseReference(s string) (Reference, error) {
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Reference{}, fmt.Errorf("image %q: %w (%w)", s, ErrBadName, err)
	}
	r := Reference{Repository: named.Name()}
	if tagged, ok := named.(reference.Tagged); ok {
		r.Tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		r.Digest = digested.Digest()
		if r.Digest.Algorithm() != digest.SHA256 {
			return Reference{}, fmt.Errorf("image %q: %w by sha256 but by %s", s, ErrNotPinned, r.Digest.Algorithm())
		}
	}
	if r.String() != s {
		return Reference{}, fmt.Errorf("image %q: %w: its full name is %s", s, ErrShortName, r)
	}
	if r.Digest == "" {
		r.Tag = cmp.Or(r.Tag, "latest")
	}
	return r, nil
}

// String is the reference as it is written.
func (r Reference) String() string {
	s := r.Repository
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest.String()
	}
	return s
}

// TagName is the name that a container may use for the image without a digest, ""
// if there is none.
func (r Reference) TagName() string {
	if r.Tag == "" || r.Digest != "" {
		return ""
	}
	return r.Repository + ":" + r.Tag
}
