package source

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/signature"
)

// OCMirror is the output of oc-mirror v2.
type OCMirror struct {
	// Paths are archives (mirror_000001.tar), folders of them, workspaces, folders of its cache,
	// and mapping.txt of a dry run. Incremental archives need the earlier ones in the list too.
	// Without paths the images come from registries.
	Paths []string `yaml:"paths,omitempty" jsonschema:"example=mirror/"`
	// Stores are the graph roots of earlier stores with the blobs that incremental archives lack:
	// of podman, of CRI-O, or a mounted store of pinbox.
	Stores []string `yaml:"stores,omitempty" jsonschema:"example=/mnt/earlier"`
	// Config is an ImageSetConfiguration. If empty, the newest in the paths.
	Config string `yaml:"config,omitempty" jsonschema:"example=isc.yaml"`
	// Exclude images that belong to no release: by their names, their repositories, or
	// repository:tag in the mirror; * and ? match anything except /. The name of a field, such as
	// mirror.helm, excludes all images that the field requests.
	Exclude []string `yaml:"exclude,omitempty" jsonschema:"example=quay.io/site/model"`
	// Components to take of each release. If empty, all that CRI-O pulls.
	Components Components `yaml:"components,omitempty"`
	// MachineOS also takes the operating system of the nodes, which CRI-O never pulls. The default is true with
	// spec.openshift, whose operator updates nodes from it.
	MachineOS *bool `yaml:"machineOS,omitempty"`
	// Signatures of the releases to verify. Signatures in the paths are used too.
	Signatures Signatures `yaml:"signatures,omitempty"`
}

// ErrOnlyOCMirror is returned if an ImageSetConfiguration without the output of oc-mirror is not
// enough.
var ErrOnlyOCMirror = fault.New(fault.Input, "only oc-mirror can follow",
	"run oc-mirror with it, and name its archive or workspace as well")

// Validate implements Source.
func (m *OCMirror) Validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case len(m.Paths) == 0 && m.Config == "":
		refuse("ocMirror has neither paths nor a config")
	case len(m.Paths) == 0 && len(m.Stores) > 0:
		refuse("ocMirror has stores, which complete archives, but no paths")
	case len(m.Paths) == 0 && len(m.Exclude) > 0:
		refuse("ocMirror has exclude without paths; blockedImages of the config are left out")
	}
	if m.Signatures.given() && len(m.Signatures.Keys) == 0 {
		refuse("ocMirror has signatures without keys")
	}
	for _, p := range m.Exclude {
		if _, err := path.Match(p, ""); err != nil {
			refuse("ocMirror has the exclude pattern %q: %w", p, err)
		}
	}
	return errors.Join(errs...)
}

// PathFields implements Source.
func (m *OCMirror) PathFields() []*string {
	return slices.Concat(pointers(m.Paths), pointers(m.Stores), m.Signatures.paths(), []*string{&m.Config})
}

// Read implements Source: it reads the names and the locations of images.
func (m *OCMirror) Read(ctx context.Context, o Options) (all Content, err error) {
	config, err := m.readConfig()
	if err := errors.Join(err, m.Signatures.check()); err != nil {
		return all, err
	}
	if len(m.Paths) == 0 {
		return m.imageSet(config)
	}
	tree, left, err := openMirror(ctx, m.Paths)
	if err != nil {
		return all, err
	}
	all.files = append(all.files, tree)
	if m.Config == "" {
		all.Warnings = left
	}
	stores, err := openStores(m.Stores)
	if err != nil {
		return all, err
	}
	origin := strings.Join(m.Paths, ", ")
	images, err := storage.ReadDistribution(tree, origin, stores...)
	if err != nil {
		return all, err
	}
	options := MirrorOptions{Config: config, Exclude: m.Exclude, Platform: o.Platform}
	content, err := ReadOCMirror(ctx, tree, images.Tags, options)
	if err != nil {
		return all, fmt.Errorf("%s: %w", origin, err)
	}
	all.Warnings = append(all.Warnings, content.Warnings...)
	if len(images.Tags) == 0 { // mirror to mirror: the registries have the images
		all.RegistryReasons = append(all.RegistryReasons, origin+" has the names of images, but not the "+
			"images, so these come from the registries: add mirror_*.tar or the cache of "+
			"oc-mirror to the paths, or its cluster-resources to the mirrors")
		images = nil
	}
	m.images(&all, content, images)
	err = m.releases(&all, content, tree, images)
	return all, err
}

func openStores(paths []string) (stores []*storage.ImageStore, err error) {
	for _, path := range paths {
		store, err := storage.OpenImageStore(path)
		if err != nil {
			return nil, err
		}
		stores = append(stores, store)
	}
	return stores, nil
}

func (m *OCMirror) readConfig() (*ImageSetConfig, error) {
	if m.Config == "" {
		return nil, nil
	}
	f, err := input.Open(m.Config)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := document.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", m.Config, ErrImageSetConfig, err)
	}
	return ParseImageSetConfig(m.Config, content)
}

// imageSet returns the images that a configuration names; they come from registries.
func (m *OCMirror) imageSet(config *ImageSetConfig) (all Content, err error) {
	if fields := config.OCMirrorOnly(); len(fields) > 0 {
		return all, fmt.Errorf("%s: %w %s", m.Config, ErrOnlyOCMirror, strings.Join(fields, ", "))
	}
	names, err := config.Images()
	if err != nil {
		return all, err
	}
	if len(names) > 0 {
		all.Named = []NamedImages{{Origin: m.Config, Names: names}}
	}
	if image := config.Mirror.Platform.Release; image != "" {
		all.Releases = []RequestedRelease{{Release: m.release(image)}}
	}
	return all, nil
}

// release is the source for one release of the output.
func (m *OCMirror) release(image string) Release {
	return Release{Image: image, Components: m.Components, MachineOS: m.MachineOS, Signatures: m.Signatures}
}

// images adds the images that belong to no release. at is nil if they come from registries.
func (m *OCMirror) images(all *Content, content MirrorContent, at *storage.Distribution) {
	if len(content.Images) == 0 {
		return
	}
	var names []Named
	var found []LocalImage
	for _, img := range content.Images {
		name := img.Reference
		if at == nil {
			name.Digest = img.Stored // mirrors are found by digest
			names = append(names, Named{Reference: name, Origin: m.Paths[0]})
			continue
		}
		name.Digest = ""
		found = append(found, LocalImage{name, sparse(at.Image(name.String(), img.Stored), img.FilteredBy)})
	}
	if at == nil {
		all.addNames(names)
		return
	}
	all.Local = append(all.Local, LocalImages{Origin: m.Paths[0], Images: found})
}

// mirroredSignatures are those of releases, each of some hundred bytes.
type mirroredSignatures [][]byte

// maxSignatures limits all of them together, in bytes. Names in an archive may be links to one file.
const maxSignatures = 4 << 20

func (s *mirroredSignatures) add(content []byte) error {
	err := signature.CheckSize(content)
	sum := len(content)
	for _, other := range *s {
		sum += len(other)
	}
	if err == nil && sum > maxSignatures {
		err = fmt.Errorf("the signatures have more than %d bytes", maxSignatures)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOCMirror, err)
	}
	*s = append(*s, content)
	return nil
}

// releases adds the releases and their signatures. at is nil if they come from registries.
func (m *OCMirror) releases(all *Content, content MirrorContent, tree *storage.Tree, at *storage.Distribution) error {
	var signatures mirroredSignatures
	for _, name := range tree.Names() {
		if !strings.HasPrefix(name, workingDir+"signatures/") {
			continue
		}
		signature, err := tree.ReadFile(name)
		if err != nil {
			return err
		}
		if err := signatures.add(signature); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, r := range content.Releases {
		image := r.Reference
		if r.Stored != "" {
			image.Tag, image.Digest = "", r.Stored
		}
		references, err := tree.ReadFile(r.References)
		if err != nil {
			return err
		}
		all.Releases = append(all.Releases, RequestedRelease{
			Release: m.release(image.String()), Images: at, Tag: r.TagName(), MirroredSignatures: signatures,
			References: references, Blocked: content.Blocked, FilteredBy: r.FilteredBy,
		})
	}
	return nil
}
