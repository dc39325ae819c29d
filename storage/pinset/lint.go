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

// Violation is what the cluster's API has against a set that a node can pin.
type Violation struct {
	// Rule that it breaks: set-size, set-twice or set-image.
	Rule string
	// Image that breaks it; the zero one if it is the whole set.
	Image Image
	// Text says what is refused.
	Text string
}

// Violations says what the cluster's API would refuse about the set although a
// node can pin it: such a set builds, but its manifest cannot be applied as it is.
func (s Set) Violations() (all []Violation) {
	object := func(rule string, img Image, format string, args ...any) {
		all = append(all, Violation{rule, img, "the cluster's API refuses " + fmt.Sprintf(format, args...)})
	}
	if n := len(s.Images); n > maxImages {
		object("set-size", Image{}, "more than %d images in a set; it has %d", maxImages, n)
	}
	for _, img := range s.Duplicates {
		object("set-twice", img, "image %s: it is listed twice", img)
	}
	for _, img := range s.Images {
		if !apiImageName.MatchString(img.Repository) {
			object("set-image", img, "image %s: it takes host.domain[:port][/namespace]/name, with one namespace at most", img)
		}
	}
	return all
}

// Warnings tells the objections as warnings.
func (s Set) Warnings() (warnings []string) {
	for _, o := range s.Violations() {
		warnings = append(warnings, fmt.Sprintf("%s: set %q: %s", s.Origin, s.Name, o.Text))
	}
	return warnings
}

// Split makes of a generated set as many as it takes for the cluster's API to accept
// them: name, name-2 and so on.
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
