package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNoFullName says that nothing tells the name of an image on this machine.
var ErrNoFullName = errors.New("image has no full name")

// OCI are folders of the OCI image layout.
type OCI []Location

// Archives are files that podman save or skopeo copy wrote, in the format of OCI or of
// Docker, compressed or not.
type Archives []Location

// Location is where images are on this machine: a folder of the OCI image layout, or an
// archive.
type Location struct {
	// Path of the folder or the archive.
	Path string `yaml:"path,omitempty"`
	// Name of the image, with a tag, if it has no full one there.
	Name string `yaml:"name,omitempty"`
}

// parseLocation reads PATH or PATH=NAME.
func parseLocation(text string) Location {
	path, name, _ := strings.Cut(text, "=")
	return Location{path, name}
}

func (l *OCI) add(text string) { *l = append(*l, parseLocation(text)) }

// UnmarshalYAML has messages speak of a list.
func (l *OCI) UnmarshalYAML(decode func(any) error) error { return decode((*[]Location)(l)) }

// Validate implements Source.
func (l *OCI) Validate() error { return validateLocations("oci", *l) }

// PathFields implements Source.
func (l *OCI) PathFields() []*string { return pathsOf(*l) }

// Read implements Source.
func (l *OCI) Read(context.Context, Options) (m Content, err error) {
	for _, at := range *l {
		found, err := storage.Layout(at.Path)
		if err != nil {
			return m, err
		}
		if err := m.local(at, found); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (l *Archives) add(text string) { *l = append(*l, parseLocation(text)) }

// UnmarshalYAML has messages speak of a list.
func (l *Archives) UnmarshalYAML(decode func(any) error) error { return decode((*[]Location)(l)) }

// Validate implements Source.
func (l *Archives) Validate() error { return validateLocations("archives", *l) }

// PathFields implements Source.
func (l *Archives) PathFields() []*string { return pathsOf(*l) }

// Read implements Source.
func (l *Archives) Read(ctx context.Context, o Options) (m Content, err error) {
	for _, at := range *l {
		found, file, err := storage.Archive(ctx, at.Path, o.Tmp)
		if err != nil {
			return m, err
		}
		m.files = append(m.files, file)
		if err := m.local(at, found); err != nil {
			return m, err
		}
	}
	return m, nil
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

// local adds images that were found at a location, by their names there or the one that is
// given.
func (m *Content) local(at Location, found []storage.Found) error {
	if len(found) == 0 {
		return fmt.Errorf("%s: %w: no image in it", at.Path, storage.ErrLocal)
	}
	if at.Name != "" && len(found) > 1 {
		return fmt.Errorf("%s: %w: there are %d images in it, and one name, %s, given",
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
			return fmt.Errorf("%s: %w: %w", at.Path, ErrNoFullName, err)
		}
		name.Digest = "" // that of the layout counts
		images.Images = append(images.Images, LocalImage{name, f})
	}
	m.Local = append(m.Local, images)
	return nil
}
