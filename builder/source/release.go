package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
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

// Errors of a release.
var (
	ErrRelease = fault.New(fault.Input, "not an OpenShift release",
		"name the pull spec of a release; `oc adm release info` shows what it contains")
	ErrComponent = fault.New(fault.Input, "component of the release",
		"`oc adm release info` lists the components of a release")
)

// Files of a release image: openshift/oc, pkg/cli/admin/release.
const (
	ImageReferences = "release-manifests/image-references"
	ReleaseMetadata = "release-manifests/release-metadata"
)

// Payload is the content of an OpenShift release.
type Payload struct {
	Version    string
	Components []Component
}

// Component of a release.
type Component struct {
	Name  string
	Image pinset.Image
	// MachineOS is true for the operating system of the nodes, which rpm-ostree fetches, and CRI-O
	// never pulls.
	MachineOS bool
}

// imageStream is the part of image-references that pinbox reads: an ImageStream of
// image.openshift.io/v1.
type imageStream struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Tags []struct {
			Name        string
			From        *struct{ Kind, Name string }
			Annotations map[string]string
		}
	}
}

// ParsePayload reads the two files of a release image.
func ParsePayload(references, metadata []byte) (Payload, error) {
	var stream imageStream
	if len(references) == 0 {
		return Payload{}, fmt.Errorf("%w: it has no %s", ErrRelease, ImageReferences)
	}
	if err := json.Unmarshal(references, &stream); err != nil {
		return Payload{}, fmt.Errorf("%w: %s: %w", ErrRelease, ImageReferences, err)
	}
	if stream.Kind != "ImageStream" || stream.Metadata.Name == "" {
		return Payload{}, fmt.Errorf("%w: %s is not an ImageStream with a name", ErrRelease, ImageReferences)
	}
	if err := checkMetadata(metadata, stream.Metadata.Name); err != nil {
		return Payload{}, err
	}
	r := Payload{Version: stream.Metadata.Name}
	digests := map[string]pinset.Image{}
	var errs []error
	for _, tag := range stream.Spec.Tags {
		if tag.From == nil || tag.From.Kind != "DockerImage" {
			errs = append(errs, fmt.Errorf("%w %s: it names no image", ErrComponent, tag.Name))
			continue
		}
		img, err := pinset.ParseImage(tag.From.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w %s: %w", ErrComponent, tag.Name, err))
			continue
		}
		if other, ok := digests[tag.Name]; ok && other != img {
			errs = append(errs, fmt.Errorf("%w %s: it is listed twice, as %s and %s", ErrComponent, tag.Name, other, img))
			continue
		}
		digests[tag.Name] = img
		component := Component{Name: tag.Name, Image: img, MachineOS: machineOS(tag.Name, tag.Annotations)}
		r.Components = append(r.Components, component)
	}
	if len(r.Components) == 0 && len(errs) == 0 {
		return Payload{}, fmt.Errorf("%w: %s lists no component", ErrRelease, ImageReferences)
	}
	return r, errors.Join(errs...)
}

// checkMetadata compares the versions. Releases made by hand may have no metadata.
func checkMetadata(metadata []byte, version string) error {
	if len(metadata) == 0 {
		return nil
	}
	var m struct{ Kind, Version string }
	if err := json.Unmarshal(metadata, &m); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrRelease, ReleaseMetadata, err)
	}
	if m.Kind != "cincinnati-metadata-v0" || m.Version != version {
		return fmt.Errorf("%w: %s has %s %q, %s version %q",
			ErrRelease, ReleaseMetadata, m.Kind, m.Version, ImageReferences, version)
	}
	return nil
}

// machineOS recognizes the operating system by the annotation of its build, or by the names that it
// had in releases so far.
func machineOS(name string, annotations map[string]string) bool {
	for entry := range strings.SplitSeq(annotations["io.openshift.build.versions"], ",") {
		if strings.HasPrefix(strings.TrimSpace(entry), "machine-os=") {
			return true
		}
	}
	for _, pattern := range []string{
		"machine-os-content", "rhel-coreos*", "stream-coreos*", "fedora-coreos*", "centos-stream-coreos*",
	} {
		if ok, _ := path.Match(pattern, name); ok { // the patterns are well formed
			return true
		}
	}
	return false
}

// Select returns the components that match an include pattern, or all if there is no pattern, and match
// no exclude pattern. The operating system is included only with machineOS or by its exact name. A
// pattern that matches nothing is an error, as it is probably misspelt.
func (r Payload) Select(include, exclude []string, machineOS bool) ([]Component, error) {
	used := map[string]bool{}
	match := func(patterns []string, name string) (any bool, err error) {
		for _, p := range patterns {
			ok, err := path.Match(p, name)
			if err != nil {
				return false, fmt.Errorf("%w %q: %w", ErrComponent, p, err)
			}
			used[p] = used[p] || ok
			any = any || ok
		}
		return any, nil
	}
	var chosen []Component
	for _, c := range r.Components {
		wanted, err := match(include, c.Name)
		if err != nil {
			return nil, err
		}
		unwanted, err := match(exclude, c.Name)
		if err != nil {
			return nil, err
		}
		named := slices.Contains(include, c.Name)
		if (wanted || len(include) == 0) && !unwanted && (machineOS || named || !c.MachineOS) {
			chosen = append(chosen, c)
		}
	}
	for _, p := range slices.Concat(include, exclude) {
		if !used[p] {
			return nil, fmt.Errorf("%w %q: release %s has no such component", ErrComponent, p, r.Version)
		}
	}
	return chosen, nil
}
