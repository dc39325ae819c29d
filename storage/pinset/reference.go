package pinset

import (
	"cmp"
	"fmt"
	"strings"

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
	r, err := normalize(s)
	if err != nil {
		return Reference{}, err
	}
	if r.String() != s {
		return Reference{}, shortName(s, r.String())
	}
	return r.latest(), nil
}

// Expand reads a name as CRI-O reads a container's: "docker.io/nginx" is
// docker.io/library/nginx:latest. Of a short name, which leaves the registry to
// the node's configuration, it is the most likely one.
func Expand(s string) (r Reference, short bool, err error) {
	if r, err = normalize(s); err != nil {
		return Reference{}, false, err
	}
	return r.latest(), registry(s) == "", nil
}

// registry is the host that a name begins with, "" if it leaves that out.
func registry(s string) string {
	host, _, found := strings.Cut(s, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return ""
	}
	return host
}

// shortName says what a name leaves out of the full one.
func shortName(s, full string) error {
	what := "it does not name its registry"
	switch host := registry(s); {
	case host != "" && strings.HasPrefix(full, host+"/library/"):
		what = "it lacks the path library/"
	case host != "":
		what = "its registry is called " + registry(full)
	}
	return fmt.Errorf("image %q: %w: %s; write %s", s, ErrShortName, what, full)
}

// normalize adds what may be left out of a name, but for the tag.
func normalize(s string) (Reference, error) {
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
	return r, nil
}

func (r Reference) latest() Reference {
	if r.Digest == "" {
		r.Tag = cmp.Or(r.Tag, "latest")
	}
	return r
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
