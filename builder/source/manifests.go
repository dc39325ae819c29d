package source

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Errors of manifests.
var (
	ErrManifest = fault.New(fault.Input, "not a Kubernetes manifest",
		"render charts with `helm template`")
	ErrNoImages = fault.New(fault.Input, "no container in it names an image",
		"name a file or a folder with Kubernetes objects that have pods")
)

// Manifests are files, or folders of files, of Kubernetes objects that name the images.
type Manifests struct {
	// Paths of the files and folders.
	Paths []string `yaml:"paths" jsonschema:"minItems=1,example=rendered/"`
	// Possible is what happens to names that may be images. list, if left out, lists them in a warning; take takes them;
	// refuse ends the build; ignore says nothing.
	Possible PossibleImages `yaml:"possible,omitempty" jsonschema:"enum=list,enum=take,enum=refuse,enum=ignore"`
}

// PossibleImages is what happens to names that may be images.
type PossibleImages string

// The values of PossibleImages; "" is ListPossible.
const (
	ListPossible   PossibleImages = "list"
	TakePossible   PossibleImages = "take"
	RefusePossible PossibleImages = "refuse"
	IgnorePossible PossibleImages = "ignore"
)

func (l *Manifests) add(path string) { l.Paths = append(l.Paths, path) }

// UnmarshalYAML decodes a list of paths, or the fields.
func (l *Manifests) UnmarshalYAML(decode func(any) error) error {
	var root node
	if err := decode(&root); err != nil {
		return err
	}
	if root.Kind != yaml.MappingNode {
		return decode(&l.Paths)
	}
	type fields Manifests // without this method
	return decode((*fields)(l))
}

// MarshalYAML writes a list, if there is nothing but paths.
func (l *Manifests) MarshalYAML() (any, error) {
	if l.Possible == "" {
		return l.Paths, nil
	}
	type fields Manifests
	return (*fields)(l), nil
}

// Validate implements Source.
func (l *Manifests) Validate() error {
	values := []PossibleImages{"", ListPossible, TakePossible, RefusePossible, IgnorePossible}
	var errs []error
	if !slices.Contains(values, l.Possible) {
		errs = append(errs,
			fmt.Errorf("manifests.possible (--possible-images) is %q; it must be list, take, refuse or ignore",
				l.Possible))
	}
	if len(l.Paths) == 0 {
		errs = append(errs, errors.New("manifests name no file: give paths (--manifests)"))
	}
	return errors.Join(errs...)
}

// PathFields implements Source.
func (l *Manifests) PathFields() []*string { return pointers(l.Paths) }

// Read implements Source.
func (l *Manifests) Read(ctx context.Context, _ Options) (Content, error) {
	return readListings(l.Paths, func(path string) (Listing, error) { return ReadManifests(ctx, path, l.Possible) })
}

// ReadManifests finds the images in files of Kubernetes objects and in folders of them, such as the output of `helm
// template` or `kustomize build`: those of pods and of other fields that say so, and as possible says those that may be
// images.
func ReadManifests(ctx context.Context, path string, possible PossibleImages) (Listing, error) {
	objects, err := ReadObjects(ctx, []string{path}, nil)
	if err != nil {
		return Listing{}, err
	}
	l := Listing{MachineConfigs: objects.MachineConfigs}
	var errs []error
	for _, use := range objects.Uses {
		switch {
		case use.Image.Text == "":
		case use.Expression:
			l.Warnings = append(l.Warnings, fmt.Sprintf("%s: left out: image %s is filled in when the object runs; "+
				"give what it may be with --image", use.Image.Position(), use.Image.Text))
		default:
			name, err := parse(use.Image.Text, use.Image.Position())
			name.Volume = use.Volume
			l.Names, errs = append(l.Names, name), append(errs, err)
		}
	}
	for _, u := range objects.Unread {
		l.Warnings = append(l.Warnings, u.At.Position()+": "+u.String())
	}
	if len(objects.Uses)+len(objects.Possible) == 0 { // a folder of sets alone is for the other flag
		objects.Sets = nil
	}
	for _, set := range objects.Sets { // the other flag may have it too
		for _, img := range set.Images {
			if ref, err := pinset.ParseReference(img.Text); err == nil {
				objects.Possible = append(objects.Possible, Possible{
					Image: img, Reference: ref, Object: pinset.Kind + "/" + set.Name.Text, Path: "spec.pinnedImages",
				})
			}
		}
	}
	switch {
	case possible == TakePossible:
		for _, p := range objects.Possible {
			l.Names = append(l.Names, Named{Reference: p.Reference, Origin: p.Image.Position()})
		}
	case possible != IgnorePossible:
		l.Possible = objects.Possible
		for i := range l.Possible { // another source may name it
			l.Possible[i].Refused = possible == RefusePossible
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Listing{}, err
	}
	if len(l.Names)+len(l.Possible) == 0 {
		return Listing{}, withWarnings(fmt.Errorf("%s: %w", path, ErrNoImages), l.Warnings)
	}
	return l, nil // other inputs may name the possible images
}

// withWarnings adds warnings that may explain the error.
func withWarnings(err error, warnings []string) error {
	for _, w := range warnings {
		err = fmt.Errorf("%w\n%s", err, w)
	}
	return err
}
