package source

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Content is what sources name, before registries are contacted.
type Content struct {
	// Sets are the PinnedImageSets, in the order of their names.
	Sets []pinset.Set
	// Named are images by name. A registry may have to resolve their tags.
	Named []NamedImages
	// Local are images in local files and folders.
	Local []LocalImages
	// Releases are OpenShift releases, whose payloads list the images.
	Releases []RequestedRelease
	// Possible are names in objects that may be images. They are left out, unless another source names them.
	Possible []Possible
	// MachineConfigs are objects for the nodes of a cluster: see Objects.
	MachineConfigs map[string][]byte
	// AnyArchitecture are the images that are taken whatever their architecture is. Without a tag and a digest, it is
	// all of the repository.
	AnyArchitecture []pinset.Reference
	// Warnings describe what is left out.
	Warnings []string
	// RegistryReasons explain why images come from registries that the user may have locally. They
	// are added to errors of registries.
	RegistryReasons []string

	// setPaths are files and folders of PinnedImageSets. Those of all sources are read together: a
	// file is read once, and two sets must not have one name.
	setPaths []string
	// files stay open for as long as images are read from them.
	files []io.Closer
}

// Group is the set that images are put in, or the sets: one for each pool.
type Group struct {
	// Set is the name of the set. For a release, its version is appended.
	Set string
	// Pools get one set each. Without pools there is one set for all nodes.
	Pools []string
}

// NamedImages are images by their names.
type NamedImages struct {
	Group
	// Origin is the file or the field of the first name.
	Origin string
	Names  []Named
}

// LocalImages are one or more images of one local file or folder.
type LocalImages struct {
	Group
	// Origin is the file or the folder that has them.
	Origin string
	Images []LocalImage
}

// LocalImage is an image of a local file or folder.
type LocalImage struct {
	// Name is the name for it, without a digest.
	Name  pinset.Reference
	Found storage.LocalImage
}

// RequestedRelease is a release to take images from.
type RequestedRelease struct {
	Group
	Release
	// Images has the images of the release if they are local, else it is nil.
	Images *storage.Distribution
	// Tag that oc-mirror was asked for, "" if none.
	Tag string
	// MirroredSignatures are the signatures in the output of oc-mirror, and References its list of
	// the components.
	MirroredSignatures [][]byte
	References         []byte
	// Blocked reports whether oc-mirror left out a component; nil if it left out none.
	Blocked func(name string) bool
	// FilteredBy is the field that made oc-mirror leave out the instances for the platform, "" if
	// none did.
	FilteredBy string
}

// Local is an image of the release in the local files.
func (r RequestedRelease) Local(img pinset.Image) storage.LocalImage {
	return sparse(r.Images.Image(img.String(), img.Digest), r.FilteredBy)
}

// sparse marks an image whose instances for the platform were left out by a field; "" if they were
// not.
func sparse(img storage.LocalImage, field string) storage.LocalImage {
	if field == "" {
		return img
	}
	return img.WithSparseIndex(fmt.Errorf("%w: %s", ErrPlatformFiltered, field))
}

// addNames adds images by name, if there are any.
func (m *Content) addNames(names []Named) {
	if len(names) > 0 {
		m.Named = append(m.Named, NamedImages{Origin: names[0].Origin, Names: names})
	}
}

// Close closes the local files.
func (m *Content) Close() error {
	var errs []error
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// add adds the content of another source. The sets are read later, of all sources together.
func (m *Content) add(more Content) {
	m.Named = append(m.Named, more.Named...)
	m.Local = append(m.Local, more.Local...)
	m.Releases = append(m.Releases, more.Releases...)
	m.Possible = append(m.Possible, more.Possible...)
	if m.MachineConfigs == nil {
		m.MachineConfigs = map[string][]byte{}
	}
	maps.Copy(m.MachineConfigs, more.MachineConfigs)
	m.Warnings = append(m.Warnings, more.Warnings...)
	m.RegistryReasons = append(m.RegistryReasons, more.RegistryReasons...)
	m.setPaths = append(m.setPaths, more.setPaths...)
	m.files = append(m.files, more.files...)
}

// SurelyRefused returns the names that sources refuse, and that none takes, whatever registries answer: they may name
// the images of a release, and the digest of a tag.
func (m *Content) SurelyRefused() (all []Possible) {
	if len(m.Releases) > 0 {
		return nil
	}
	named := map[string]bool{} // the names, and the repositories of tags
	add := func(ref pinset.Reference) {
		if named[ref.String()] = true; ref.Digest == "" {
			named[ref.Repository] = true
		}
		ref.Tag = ""
		named[ref.String()] = true
	}
	for _, images := range m.Named {
		for _, n := range images.Names {
			add(n.Reference)
		}
	}
	for _, images := range m.Local {
		for _, img := range images.Images {
			add(img.Name)
		}
	}
	for _, img := range pinset.Union(m.Sets...) {
		named[img.String()] = true
	}
	for _, p := range m.Possible {
		ref := p.Reference
		if ref.Digest != "" {
			ref.Tag = "" // the digest decides
		}
		if p.Refused && !named[ref.String()] && (ref.Digest == "" || !named[ref.Repository]) {
			all = append(all, p)
		}
	}
	return all
}

// empty reports whether there is no image.
func (m *Content) empty() bool { return len(m.Sets) == 0 && !m.Unpinned() }

// Unpinned reports whether there are images that are in no set yet.
func (m *Content) Unpinned() bool { return len(m.Named)+len(m.Local)+len(m.Releases) > 0 }

// ForCluster changes the content for a cluster of OpenShift. An object without the label of a pool belongs to no pool
// there, so each pool gets a copy. Releases bring their operating system, unless their source says that they do not.
func (c *Content) ForCluster(pools []string) {
	for i := range c.Named {
		c.Named[i].inPools(pools)
	}
	for i := range c.Local {
		c.Local[i].inPools(pools)
	}
	for i := range c.Releases {
		r := &c.Releases[i]
		r.inPools(pools)
		if r.MachineOS == nil {
			yes := true
			r.MachineOS = &yes
		}
	}
	var sets []pinset.Set
	for _, set := range c.Sets {
		if set.Labels[pinset.RoleLabel] != "" {
			sets = append(sets, set)
			continue
		}
		var names []string
		for _, pool := range pools {
			each := set
			each.Name, each.Labels = set.Name+"-"+pool, maps.Clone(set.Labels)
			if each.Labels == nil {
				each.Labels = map[string]string{}
			}
			each.Labels[pinset.RoleLabel] = pool
			sets, names = append(sets, each), append(names, each.Name)
		}
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: set %q has no label %s and so belongs to no pool of OpenShift: "+
			"the appliance has %s instead", set.Origin, set.Name, pinset.RoleLabel, strings.Join(names, ", ")))
	}
	c.Sets = sets
}

// inPools assigns images to a set for each pool, if they are for no pool.
func (g *Group) inPools(pools []string) {
	if len(g.Pools) == 0 {
		g.Pools = pools
	}
}
