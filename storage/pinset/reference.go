package pinset

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker/reference"
)

// Reference is the name of an image with a tag or a digest.
type Reference struct {
	// Repository includes the registry's host.
	Repository string
	// Tag is "" if the name has none.
	Tag string
	// Digest takes precedence over Tag.
	Digest digest.Digest
}

// ParseReference reads "host/path", "host/path:tag", "host/path@sha256:…" or
// "host/path:tag@sha256:…". A name without tag and digest gets the tag latest. index.docker.io is docker.io.
func ParseReference(s string) (Reference, error) {
	s = dockerHub(s)
	r, err := normalize(s)
	if err != nil {
		return Reference{}, err
	}
	if r.String() != s {
		return Reference{}, shortName(s, r.String())
	}
	return r.latest(), nil
}

// dockerHub replaces the other name of docker.io, which go-containerregistry writes (crane, kaniko, Hauler).
func dockerHub(s string) string {
	if path, ok := strings.CutPrefix(s, "index.docker.io/"); ok {
		return "docker.io/" + path
	}
	return s
}

// Expand reads a name as CRI-O reads the image name of a container: "docker.io/nginx" is
// docker.io/library/nginx:latest. short is true if the name has no registry, so that the node's
// configuration decides which one is used; the result then is the name on Docker Hub.
func Expand(s string) (r Reference, short bool, err error) {
	if r, err = normalize(s); err != nil {
		return Reference{}, false, err
	}
	return r.latest(), registry(s) == "", nil
}

// registry returns the host that a name begins with, "" if it has none.
func registry(s string) string {
	host, _, found := strings.Cut(s, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return ""
	}
	return host
}

// shortName returns the error for a name that differs from the full name.
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

// normalize completes a name, except for the tag.
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
			return Reference{}, fmt.Errorf("image %q: %w by sha256: it is by %s", s, ErrNotPinned, r.Digest.Algorithm())
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

// String returns the reference in its full form.
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

// TagName returns the name with the tag by which a container may refer to the image, "" if the
// reference has a digest.
func (r Reference) TagName() string {
	if r.Tag == "" || r.Digest != "" {
		return ""
	}
	return r.Repository + ":" + r.Tag
}
