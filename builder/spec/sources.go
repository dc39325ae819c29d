package spec

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Source of images: one of pinnedImageSets, images, imageLists, manifests, release,
// ocMirror, oci, archives and containersStorage.
type Source struct {
	// PinnedImageSets are files, or folders of files, of PinnedImageSet objects.
	PinnedImageSets []string `yaml:"pinnedImageSets,omitempty"`
	// Images by their full names, with a digest or a tag.
	Images []string `yaml:"images,omitempty"`
	// ImageLists are files of names: one a line, a release of MicroShift as JSON, or
	// Images of Hauler.
	ImageLists []string `yaml:"imageLists,omitempty"`
	// Manifests are files, or folders of files, of Kubernetes objects whose pods name
	// the images.
	Manifests []string `yaml:"manifests,omitempty"`
	// Release of OpenShift.
	Release ReleaseSource `yaml:"release,omitempty"`
	// OCMirror is what oc-mirror v2 has left.
	OCMirror OCMirrorSource `yaml:"ocMirror,omitempty"`
	// OCI are folders of the OCI image layout.
	OCI []LocalImages `yaml:"oci,omitempty"`
	// Archives are files that podman save or skopeo copy wrote, in the format of OCI
	// or of Docker, compressed or not.
	Archives []LocalImages `yaml:"archives,omitempty"`
	// ContainersStorage are images of podman's or CRI-O's store on this machine.
	ContainersStorage ContainersStorage `yaml:"containersStorage,omitempty"`
	// Set is the name of the PinnedImageSet that is made of images that have none;
	// that of the appliance with -images if left out. That of a release gets its
	// version and the pool behind it.
	Set string `yaml:"set,omitempty"`
	// Pools get a set each, with their names behind it; without any it is one for
	// every node.
	Pools []string `yaml:"pools,omitempty"`
}

// kinds are the inputs that a source may have, one of them.
func (s Source) kinds() (all, given []string) {
	for _, kind := range []struct {
		name  string
		given bool
	}{
		{"pinnedImageSets", len(s.PinnedImageSets) > 0},
		{"images", len(s.Images) > 0},
		{"imageLists", len(s.ImageLists) > 0},
		{"manifests", len(s.Manifests) > 0},
		{"release", !reflect.ValueOf(s.Release).IsZero()},
		{"ocMirror", !reflect.ValueOf(s.OCMirror).IsZero()},
		{"oci", len(s.OCI) > 0},
		{"archives", len(s.Archives) > 0},
		{"containersStorage", !reflect.ValueOf(s.ContainersStorage).IsZero()},
	} {
		all = append(all, kind.name)
		if kind.given {
			given = append(given, kind.name)
		}
	}
	return all, given
}

func (s Source) validate(appliance string) error {
	switch all, given := s.kinds(); {
	case len(given) == 0:
		return fmt.Errorf("names no input; give it one of %s", strings.Join(all, ", "))
	case len(given) > 1:
		return fmt.Errorf("has %s; make it a source for each", strings.Join(given, " and "))
	case given[0] == "pinnedImageSets" && (s.Set != "" || len(s.Pools) > 0):
		return errors.New("has set or pools, which PinnedImageSets say themselves")
	case given[0] == "pinnedImageSets":
		return nil
	case s.Set == "" && !pinset.ValidName(appliance+"-images"):
		return fmt.Errorf("needs a set: %q is no name for one", appliance+"-images")
	}
	for _, name := range append([]string{s.Set}, s.Pools...) {
		if name != "" && !pinset.ValidName(name) {
			return fmt.Errorf("has the set or pool %q, which is no lower-case RFC 1123 subdomain", name)
		}
	}
	return s.validateKind()
}

func (s Source) validateKind() error {
	for name, list := range map[string][]LocalImages{"oci": s.OCI, "archives": s.Archives} {
		for i, l := range list {
			if l.Path == "" {
				return fmt.Errorf("has no %s[%d].path", name, i)
			}
		}
	}
	if !reflect.ValueOf(s.Release).IsZero() {
		if err := s.Release.validate(); err != nil {
			return fmt.Errorf("release %w", err)
		}
	}
	if !reflect.ValueOf(s.OCMirror).IsZero() {
		if err := s.OCMirror.validate(); err != nil {
			return fmt.Errorf("ocMirror %w", err)
		}
	}
	return nil
}

// paths are all those in the source, for them to count from the file's folder.
func (s *Source) paths() (all []*string) {
	m := &s.OCMirror
	for _, list := range [][]string{
		s.PinnedImageSets, s.ImageLists, s.Manifests, s.Release.Signatures.Files, s.Release.Signatures.Keys,
		m.Paths, m.Stores, m.Signatures.Files, m.Signatures.Keys,
	} {
		all = append(all, each(list)...)
	}
	for _, list := range [][]LocalImages{s.OCI, s.Archives} {
		for i := range list {
			all = append(all, &list[i].Path)
		}
	}
	return append(all, &m.Config, &s.ContainersStorage.Path)
}

func each[T any](list []T) (pointers []*T) {
	for i := range list {
		pointers = append(pointers, &list[i])
	}
	return pointers
}

// LocalImages are images on this machine: in a folder of the OCI image layout, or
// in an archive.
type LocalImages struct {
	// Path of the folder or the archive.
	Path string `yaml:"path,omitempty"`
	// Name of the image, with a tag, if it has no full one there.
	Name string `yaml:"name,omitempty"`
}

// ContainersStorage are images of a store of containers/storage on this machine.
type ContainersStorage struct {
	// Path of the store: podman's or CRI-O's graph root. If left out,
	// /var/lib/containers/storage for root, and ~/.local/share/containers/storage for
	// others.
	Path string `yaml:"path,omitempty"`
	// Images by their names there; all that have one if left out.
	Images []string `yaml:"images,omitempty"`
}

// ReleaseSource is an OpenShift release.
type ReleaseSource struct {
	// Image is the release's pull spec, by digest or by tag.
	Image string `yaml:"image,omitempty"`
	// Components to take; all that CRI-O pulls if left out.
	Components Components `yaml:"components,omitempty"`
	// MachineOS takes the nodes' operating system as well, which CRI-O never pulls.
	MachineOS bool `yaml:"machineOS,omitempty"`
	// Signatures that must hold.
	Signatures Signatures `yaml:"signatures,omitempty"`
}

// Components are names, or patterns with * and ?.
type Components struct {
	Include []string `yaml:"include,omitempty"`
	Exclude []string `yaml:"exclude,omitempty"`
}

// Signatures of a release.
type Signatures struct {
	// Files are signatures, ConfigMaps of them, or folders with sha256=<hex>/signature-1.
	Files []string `yaml:"files,omitempty"`
	// Keys are OpenPGP keys that may have signed.
	Keys []string `yaml:"keys,omitempty"`
}

// given says whether somebody wants signatures, an empty list of keys included.
func (s Signatures) given() bool { return s.Files != nil || s.Keys != nil }

func (r ReleaseSource) validate() error {
	if s := r.Signatures; s.given() && (len(s.Files) == 0 || len(s.Keys) == 0) {
		return errors.New("has signatures without both files and keys")
	}
	_, err := pinset.ParseReference(r.Image)
	return err
}

// OCMirrorSource is what oc-mirror v2 has left.
type OCMirrorSource struct {
	// Paths are archives (mirror_000001.tar), folders of them, workspaces, folders of
	// its cache, and mapping.txt of a dry run. Archives that have only what is new need
	// the earlier ones beside them. Without paths the images come from registries.
	Paths []string `yaml:"paths,omitempty"`
	// Stores are folders of earlier stores that have what the archives have not: of
	// podman, of CRI-O, or a mounted one of pinbox.
	Stores []string `yaml:"stores,omitempty"`
	// Config is an ImageSetConfiguration; the newest in the paths if left out.
	Config string `yaml:"config,omitempty"`
	// Exclude images that belong to no release: by their names, their repositories, or
	// repository:tag as oc-mirror keeps them; * and ? stand for anything but a /. The name
	// of a field, as mirror.helm, leaves out all that it asks for.
	Exclude []string `yaml:"exclude,omitempty"`
	// Components to take of each release; all that CRI-O pulls if left out.
	Components Components `yaml:"components,omitempty"`
	// MachineOS takes the nodes' operating system as well, which CRI-O never pulls.
	MachineOS bool `yaml:"machineOS,omitempty"`
	// Signatures of the releases that must hold; those in the paths count too.
	Signatures Signatures `yaml:"signatures,omitempty"`
}

func (m OCMirrorSource) validate() error {
	switch {
	case len(m.Paths) == 0 && m.Config == "":
		return errors.New("has neither paths nor a config")
	case len(m.Paths) == 0 && len(m.Stores) > 0:
		return errors.New("has stores without paths that they could complete")
	case len(m.Paths) == 0 && len(m.Exclude) > 0:
		return errors.New("has exclude without paths; blockedImages of the config are left out")
	case m.Signatures.given() && len(m.Signatures.Keys) == 0:
		return errors.New("has signatures without keys")
	}
	for _, p := range m.Exclude {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("has the exclude pattern %q: %w", p, err)
		}
	}
	return nil
}
