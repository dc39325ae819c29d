package source

import (
	"errors"
	"fmt"
	"io"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Content is what sources name, before a registry is asked.
type Content struct {
	// Sets are the PinnedImageSets, in the order of their names.
	Sets []pinset.Set
	// Named are images by their names, of which a registry may have to resolve the tags.
	Named []NamedImages
	// Local are images on this machine.
	Local []LocalImages
	// Releases are OpenShift releases, whose payloads list the images.
	Releases []RequestedRelease
	// Unknown are images in objects of unknown kinds. They are left out, unless another
	// source has them.
	Unknown []Unknown
	// Warnings tell what is left out.
	Warnings []string
	// RegistryReasons tells why registries are asked for what the user may have on this machine.
	RegistryReasons []string

	// setPaths are files and folders of PinnedImageSets. Those of all sources are read
	// together: a file counts once, and a name may not stand for two sets.
	setPaths []string
	// files stay open for as long as images are read from them.
	files []io.Closer
}

// Group is the set that images become, or the sets: one for each pool.
type Group struct {
	// Set is the name of the set. For a release, its version comes behind it.
	Set string
	// Pools get a set each; without any, it is one for every node.
	Pools []string
}

// NamedImages are images by their names.
type NamedImages struct {
	Group
	// Origin is the file or the field that names them first.
	Origin string
	Names  []Named
}

// LocalImages are images on this machine: one at least, and all of one place.
type LocalImages struct {
	Group
	// Origin is the file or the folder that has them.
	Origin string
	Images []LocalImage
}

// LocalImage is an image on this machine.
type LocalImage struct {
	// Name is what it is to be called, without a digest.
	Name  pinset.Reference
	Found storage.Found
}

// RequestedRelease is a release to take images from.
type RequestedRelease struct {
	Group
	Release
	// Images has those of the release, if they are on this machine.
	Images *storage.Distribution
	// Tag by which oc-mirror was asked for it, "" for none.
	Tag string
	// MirroredSignatures are the signatures that oc-mirror keeps, and References its list of the
	// components.
	MirroredSignatures [][]byte
	References         []byte
	// Blocked says whether oc-mirror has left out a component; nil if it has all.
	Blocked func(name string) bool
	// FilteredBy is the field by which oc-mirror has left out some instances, "" for none.
	FilteredBy string
}

// Local is an image of the release on this machine.
func (r RequestedRelease) Local(img pinset.Image) storage.Found {
	return sparse(r.Images.Image(img.String(), img.Digest), r.FilteredBy)
}

// sparse is an image of which a field has left out some instances, "" for none.
func sparse(img storage.Found, field string) storage.Found {
	if field == "" {
		return img
	}
	return img.Sparse(fmt.Errorf("%w: %s", ErrPlatformFiltered, field))
}

// name adds images by their names, if there are any.
func (m *Content) name(names []Named) {
	if len(names) > 0 {
		m.Named = append(m.Named, NamedImages{Origin: names[0].Origin, Names: names})
	}
}

// Close ends the reading of local files.
func (m *Content) Close() error {
	var errs []error
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// add adds what another source names. Sets are read of all sources together.
func (m *Content) add(more Content) {
	m.Named = append(m.Named, more.Named...)
	m.Local = append(m.Local, more.Local...)
	m.Releases = append(m.Releases, more.Releases...)
	m.Unknown = append(m.Unknown, more.Unknown...)
	m.Warnings = append(m.Warnings, more.Warnings...)
	m.RegistryReasons = append(m.RegistryReasons, more.RegistryReasons...)
	m.setPaths = append(m.setPaths, more.setPaths...)
	m.files = append(m.files, more.files...)
}

// empty says whether there is no image.
func (m *Content) empty() bool { return len(m.Sets) == 0 && !m.Unpinned() }

// Unpinned says whether there are images that are in no set yet.
func (m *Content) Unpinned() bool { return len(m.Named)+len(m.Local)+len(m.Releases) > 0 }
