package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNoFullName is returned for a local image whose full name is unknown.
var ErrNoFullName = fault.New(fault.Input, "image has no full name",
	"give its full name: PATH=registry/path:tag on the command line, or name: registry/path:tag next to path in "+
		"the appliance file")

// ErrOtherDigest is returned for a local image that is asked for by a digest which it does not have.
var ErrOtherDigest = fault.New(fault.Input, "the image has another digest",
	"name it by its tag, or by the digest that it has: some copies change digests, and pods must use that of the copy")

// OCI are folders of the OCI image layout.
type OCI []Location

// Archives are files that podman save or skopeo copy wrote, in the format of OCI or of
// Docker, compressed or not.
type Archives []Location

// Location names local images: a folder of the OCI image layout, or an archive.
type Location struct {
	// Path of the folder or the archive. One image of several is PATH@DIGEST or PATH:TAG.
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
		at, one := at.split()
		found, err := storage.ReadLayout(at.Path)
		if err == nil {
			err = m.addLocal(at, one, found)
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
		at, one := at.split()
		found, file, err := storage.OpenArchive(ctx, at.Path, o.Tmp)
		if err == nil {
			m.files = append(m.files, file)
			err = m.addLocal(at, one, found)
		}
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

func validateLocations(key string, list []Location) error {
	var errs []error
	for i, at := range list {
		if at.Path == "" {
			errs = append(errs, fmt.Errorf("has no %s[%d].path", key, i))
		}
	}
	return errors.Join(errs...)
}

func pathsOf(list []Location) (all []*string) {
	for i := range list {
		all = append(all, &list[i].Path)
	}
	return all
}

// split returns the location without the digest or tag behind its path, and the digest or tag; "" if there is none, as
// for a path that is there.
func (l Location) split() (at Location, one string) {
	if _, err := os.Stat(l.Path); err == nil {
		return l, ""
	}
	path, one, found := strings.Cut(l.Path, "@")
	if !found {
		n := strings.LastIndexByte(l.Path, ':')
		if n < 0 {
			return l, ""
		}
		path, one = l.Path[:n], l.Path[n+1:]
	}
	if _, err := os.Stat(path); err != nil {
		return l, ""
	}
	return Location{path, l.Name}, one
}

// addLocal adds the images of a location, by their names there or by the name of the location. If one is not "", it is
// the digest or the tag of the only one to add. What belongs to images or is none is left out, with a warning.
func (m *Content) addLocal(at Location, one string, found []storage.LocalImage) error {
	if len(found) == 0 {
		return fmt.Errorf("%s: %w", at.Path, ErrEmptyList)
	}
	if one != "" {
		all := namesOf(found)
		found = slices.DeleteFunc(found, func(f storage.LocalImage) bool {
			return f.Digest.String() != one && f.Name != one && !strings.HasSuffix(f.Name, ":"+one)
		})
		if len(found) == 0 {
			return fmt.Errorf("%s: %w with the digest or tag %s; it has %s", at.Path, ErrNoSuchImage, one, all)
		}
	}
	var others []storage.LocalImage
	leave := func(not func(storage.LocalImage) bool) {
		found = slices.DeleteFunc(found, func(f storage.LocalImage) bool {
			if !not(f) {
				return false
			}
			others = append(others, f)
			return true
		})
	}
	leave(storage.LocalImage.IsOther)
	switch {
	case at.Name != "" && len(found) > 1:
		leave(func(f storage.LocalImage) bool { return !f.IsImage() })
		if len(found) > 1 {
			return fmt.Errorf("%s: %w: it has %d images, and only one name is given, %s; choose one: %[1]s@%[5]s=%[4]s",
				at.Path, ErrNoFullName, len(found), at.Name, found[0].Digest)
		}
	case at.Name == "":
		leave(func(f storage.LocalImage) bool { return !hasFullName(f.Name) && !f.IsImage() })
	}
	if len(others) > 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("%s: %d entries that are no images, such as signatures, are left "+
			"out, the first is %s", at.Path, len(others), cmp.Or(others[0].Name, others[0].Digest.String())))
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: %w: it has signatures, files or charts, but no image", at.Path, ErrNoFullName)
	}
	images := LocalImages{Origin: at.Path}
	for _, f := range found {
		given := cmp.Or(at.Name, f.Name)
		if given == "" {
			return fmt.Errorf("%s: %w", at.Path, ErrNoFullName)
		}
		name, err := pinset.ParseReference(given)
		switch {
		case err != nil && at.Name != "": // whose own hint is better
			return fmt.Errorf("%s: %w", at.Path, err)
		case err != nil:
			return fmt.Errorf("%s: %w", at.Path, fault.Wrap(ErrNoFullName, err))
		case name.Digest == "" || name.Digest == f.Digest:
		case at.Name != "":
			return fmt.Errorf("%s: %w: %s is asked for, and it has %s", at.Path, ErrOtherDigest, given, f.Digest)
		default: // a copy that has kept the name
			m.Warnings = append(m.Warnings, fmt.Sprintf("%s: the image that is named %s is %s, and who asks for the name "+
				"does not get it", at.Path, given, f.Digest))
		}
		name.Digest = "" // the digest of the layout is used
		images.Images = append(images.Images, LocalImage{name, f})
	}
	m.Local = append(m.Local, images)
	return nil
}

func hasFullName(name string) bool {
	_, err := pinset.ParseReference(name)
	return name != "" && err == nil
}
