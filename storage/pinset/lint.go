package pinset

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Limits of the cluster's API, from machineconfiguration/v1 of
// github.com/openshift/api: types_pinnedimageset.go and types_machineosconfig.go.
const (
	maxImages    = 500
	maxNameBytes = 253
)

var (
	apiImageName = regexp.MustCompile(
		`^([a-zA-Z0-9-]+\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?/([a-zA-Z0-9-_]{0,61}/)?[a-zA-Z0-9-_.]*?$`)
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// Violation is a rule of the cluster's API that a set violates. A node can pin the set anyway.
type Violation struct {
	// Rule is set-size, set-twice or set-image.
	Rule string
	// Image that violates it; the zero value if the set does.
	Image Image
	// Text describes what the API refuses.
	Text string
}

// Violations returns the reasons why the cluster's API refuses the set. Such a set can be built
// and pinned by a node, but its manifest cannot be applied to a cluster.
func (s Set) Violations() (all []Violation) {
	add := func(rule string, img Image, format string, args ...any) {
		all = append(all, Violation{rule, img, "the cluster's API refuses " + fmt.Sprintf(format, args...)})
	}
	if n := len(s.Images); n > maxImages {
		add("set-size", Image{}, "more than %d images in a set; it has %d", maxImages, n)
	}
	for _, img := range s.Duplicates {
		add("set-twice", img, "image %s: it is listed twice", img)
	}
	for _, img := range s.Images {
		if !apiImageName.MatchString(img.Repository) {
			add("set-image", img,
				"image %s: a name has the form host.domain[:port][/namespace]/name, with one namespace at most", img)
		}
	}
	return all
}

// Warnings returns the violations as texts that name the set and its origin.
func (s Set) Warnings() (warnings []string) {
	for _, o := range s.Violations() {
		warnings = append(warnings, fmt.Sprintf("%s: set %q: %s", s.Origin, s.Name, o.Text))
	}
	return warnings
}

// Split splits a generated set into sets of a size that the cluster's API accepts: name, name-2
// and so on. It returns any other set as it is.
func (s Set) Split() []Set {
	if !s.Generated || len(s.Images) <= maxImages {
		return []Set{s}
	}
	var parts []Set
	for images := range slices.Chunk(s.Images, maxImages) {
		part := s
		part.Images = images
		if n := len(parts); n > 0 {
			number := fmt.Sprintf("-%d", n+1)
			part.Name = strings.TrimRight(s.Name[:min(len(s.Name), maxNameBytes-len(number))], "-.") + number
		}
		parts = append(parts, part)
	}
	return parts
}
