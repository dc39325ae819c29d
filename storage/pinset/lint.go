package pinset

import (
	"fmt"
	"regexp"
)

// Limits of the cluster's API, from machineconfiguration/v1 of
// github.com/openshift/api: types_pinnedimageset.go and types_machineosconfig.go.
const (
	maxImages    = 500
	maxNameBytes = 253
)

var (
	apiImageName = regexp.MustCompile(`^([a-zA-Z0-9-]+\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?/([a-zA-Z0-9-_]{0,61}/)?[a-zA-Z0-9-_.]*?$`)
	objectName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// Lint says what the cluster's API would refuse about the set although a node
// can pin it: such a set builds, but its manifest cannot be applied as it is.
func (s Set) Lint() (warnings []string) {
	warn := func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf("%s: set %q: ", s.Origin, s.Name)+fmt.Sprintf(format, args...))
	}
	if n := len(s.Images); n > maxImages {
		warn("the cluster's API refuses more than %d images in a set; it has %d", maxImages, n)
	}
	for _, img := range s.Duplicates {
		warn("the cluster's API refuses image %s: it is listed twice", img)
	}
	for _, img := range s.Images {
		if !apiImageName.MatchString(img.Repository) {
			warn("the cluster's API refuses image %s: it takes host.domain[:port][/namespace]/name, with one namespace at most", img)
		}
	}
	return warnings
}
