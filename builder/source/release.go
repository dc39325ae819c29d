package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Release is an OpenShift release. Its payload lists the images.
type Release struct {
	// Image is the release's pull spec, by digest or by tag.
	Image string `yaml:"image,omitempty" jsonschema:"example=quay.io/openshift-release-dev/ocp-release:4.18.3-x86_64"`
	// Components to take. If empty, all that CRI-O pulls.
	Components Components `yaml:"components,omitempty"`
	// MachineOS also takes the operating system of the nodes, which CRI-O never pulls. The default is true with
	// spec.openshift, whose operator updates nodes from it.
	MachineOS *bool `yaml:"machineOS,omitempty"`
	// Signatures to verify.
	Signatures Signatures `yaml:"signatures,omitempty"`
}

// Components are names, or patterns with * and ?.
type Components struct {
	// Include are the components to take. If empty, all.
	Include []string `yaml:"include,omitempty" jsonschema:"example=etcd"`
	// Exclude are components to leave out, of those that are included.
	Exclude []string `yaml:"exclude,omitempty" jsonschema:"example=*-tests"`
}

// Validate implements Source.
func (r *Release) Validate() error {
	var errs []error
	if s := r.Signatures; s.given() && (len(s.Files) == 0 || len(s.Keys) == 0) {
		errs = append(errs, errors.New("release has signatures without both files and keys"))
	}
	if _, err := pinset.ParseReference(r.Image); err != nil {
		errs = append(errs, fmt.Errorf("release %w", err))
	}
	return errors.Join(errs...)
}

// PathFields implements Source.
func (r *Release) PathFields() []*string { return r.Signatures.paths() }

// Read implements Source. The payload is in a registry, and is read later.
func (r *Release) Read(context.Context, Options) (Content, error) {
	return Content{Releases: []RequestedRelease{{Release: *r}}}, r.Signatures.check()
}
