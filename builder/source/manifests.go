package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/storage/fault"
)

// Errors of manifests.
var (
	ErrManifest = fault.New(fault.Input, "not a Kubernetes manifest",
		"render charts with `helm template`")
	ErrNoImages = fault.New(fault.Input, "no container in it names an image",
		"name a file or a folder with Kubernetes objects that have pods")
)

// Manifests are files, or folders of files, of Kubernetes objects whose pods name the images.
type Manifests []string

func (l *Manifests) add(path string) { *l = append(*l, path) }

// UnmarshalYAML decodes a plain list, so that messages name no Go type.
func (l *Manifests) UnmarshalYAML(decode func(any) error) error { return decode((*[]string)(l)) }

// Validate implements Source.
func (l *Manifests) Validate() error { return nil }

// PathFields implements Source.
func (l *Manifests) PathFields() []*string { return pointers(*l) }

// Read implements Source.
func (l *Manifests) Read(context.Context, Options) (Content, error) {
	return readListings(*l, ReadManifests)
}

// ReadManifests finds the images of pods, of pod templates and of some other kinds, in files of
// Kubernetes objects and in folders of them, such as the output of `helm template` or `kustomize
// build`. It searches objects of every kind, because custom resources also have pod templates.
func ReadManifests(path string) (Listing, error) {
	objects, err := ReadObjects([]string{path}, nil)
	if err != nil {
		return Listing{}, err
	}
	l := Listing{Unknown: objects.Unknown}
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
	if err := errors.Join(errs...); err != nil {
		return Listing{}, err
	}
	if len(l.Names)+len(l.Unknown) == 0 {
		return Listing{}, withWarnings(fmt.Errorf("%s: %w", path, ErrNoImages), l.Warnings)
	}
	return l, nil // other inputs may name the unknown images
}

// withWarnings adds warnings that may explain the error.
func withWarnings(err error, warnings []string) error {
	for _, w := range warnings {
		err = fmt.Errorf("%w\n%s", err, w)
	}
	return err
}
