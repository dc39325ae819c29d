package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNoFullName is returned for a local image whose full name is unknown.
var ErrNoFullName = fault.New(fault.Input, "image has no full name",
	"give its full name: PATH=registry/path:tag on the command line, or name: registry/path:tag next to path in "+
		"the appliance file")

// OCI are folders of the OCI image layout.
type OCI []Location

// Archives are files that podman save or skopeo copy wrote, in the format of OCI or of
// Docker, compressed or not.
type Archives []Location

// Location names local images: a folder of the OCI image layout, or an archive.
type Location struct {
	// Path of the folder or the archive.
	Path string `yaml:"path,omitempty" jsonschema:"example=app.tar"`
	// Name of the image, with a tag, if the image has no full name there.
	Name string `yaml:"name,omitempty" jsonschema:"example=quay.io/site/app:1.2"`
}

// parseLocation reads PATH or PATH=NAME.
func parseLocation(text string) Location {
	path, name, _ := strings.Cut(text, "=")
	return Location{path, name}
}

func (l *OCI) add(text string) { *l = append(*l, parseLocation(text)) }

// UnmarshalYAML decodes a plain list, so that messages name no Go type.
func (l *OCI) UnmarshalYAML(decode func(any) error) error { return decode((*[]Location)(l)) }

// Validate implements Source.
func (l *OCI) Validate() error { return validateLocations("oci", *l) }

// PathFields implements Source.
func (l *OCI) PathFields() []*string { return pathsOf(*l) }

// Read implements Source.
func (l *OCI) Read(context.Context, Options) (m Content, err error) {
	var errs []error
	for _, at := range *l {
		found, err := storage.ReadLayout(at.Path)
		if err == nil {
			err = m.addLocal(at, found)
		}
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

func (l *Archives) add(text string) { *l = append(*l, parseLocation(text)) }

// UnmarshalYAML decodes a plain list, so that messages name no Go type.
func (l *Archives) UnmarshalYAML(decode func(any) error) error { return decode((*[]Location)(l)) }

// Validate implements Source.
func (l *Archives) Validate() error { return validateLocations("archives", *l) }

// PathFields implements Source.
func (l *Archives) PathFields() []*string { return pathsOf(*l) }

// Read implements Source.
func (l *Archives) Read(ctx context.Context, o Options) (m Content, err error) {
	var errs []error
	for _, at := range *l {
		found, file, err := storage.OpenArchive(ctx, at.Path, o.Tmp)
		if err == nil {
			m.files = append(m.files, file)
			err = m.addLocal(at, found)
		}
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

func validateLocations(key string, list []Location) error {
	for i, at := range list {
		if at.Path == "" {
			return fmt.Errorf("has no %s[%d].path", key, i)
		}
	}
	return nil
}

func pathsOf(list []Location) (all []*string) {
	for i := range list {
		all = append(all, &list[i].Path)
	}
	return all
}

// addLocal adds the images of a location, by their names there or by the name of the location.
func (m *Content) addLocal(at Location, found []storage.LocalImage) error {
	if len(found) == 0 {
		return fmt.Errorf("%s: %w: it has no image", at.Path, storage.ErrLocal)
	}
	if at.Name != "" && len(found) > 1 {
		return fmt.Errorf("%s: %w: it has %d images, and only one name is given, %s",
			at.Path, ErrNoFullName, len(found), at.Name)
	}
	images := LocalImages{Origin: at.Path}
	for _, f := range found {
		given := cmp.Or(at.Name, f.Name)
		if given == "" {
			return fmt.Errorf("%s: %w", at.Path, ErrNoFullName)
		}
		name, err := pinset.ParseReference(given)
		if err != nil {
			return fmt.Errorf("%s: %w", at.Path, fault.Wrap(ErrNoFullName, err))
		}
		name.Digest = "" // the digest of the layout is used
		images.Images = append(images.Images, LocalImage{name, f})
	}
	m.Local = append(m.Local, images)
	return nil
}
