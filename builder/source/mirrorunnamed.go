package source

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Errors of images that are requested without their names.
var (
	// Images are there, and no file has their names.
	ErrUnknownNames = fault.New(fault.Input, "no file has the names of images that oc-mirror copied",
		"name them in a file mapping.txt among the paths, as `oc-mirror --dry-run` writes it: "+
			"docker://NAME=docker://localhost:55000/REPOSITORY:TAG, one per line; or exclude them with "+
			"ocMirror.exclude or --oc-mirror-exclude")
	// A field requests images, there are only names, and no file has the names for the field.
	ErrUnknownImages = fault.New(fault.Input,
		"requests images, and neither mapping.txt nor a complete log of the run names them",
		"run oc-mirror with the same ImageSetConfiguration and --dry-run, and add the mapping.txt that it writes "+
			"to the paths; or exclude all images of the field with its name, such as mirror.helm, in "+
			"ocMirror.exclude or --oc-mirror-exclude")
)

var (
	// ownTags match tags of signatures and attestations, and of catalogs that oc-mirror built.
	ownTags = regexp.MustCompile(`:(?:sha256-[0-9a-f]{64}\.\w+|[0-9a-f]{32})$`)
	// kubeVirtTag matches tags of getKubeVirtImages in internal/pkg/release of oc-mirror.
	kubeVirtTag = regexp.MustCompile(`-kube-virt-container(?:-\w+)?$`)
)

// Fields of an ImageSetConfiguration that request images without their names. Without a
// configuration, everything is requested.
const (
	fieldGraph    = "mirror.platform.graph"
	fieldKubeVirt = "mirror.platform.kubeVirtContainer"
	fieldCharts   = "mirror.helm"
	everything    = "everything"
)

// unnamedFinder finds the images that the configuration requests without their names.
type unnamedFinder struct{ *workspace }

// find takes the images whose names are only in mappings, logs and mirror sets: those of
// fields without names, and all if there is no configuration.
func (r unnamedFinder) find() error {
	var errs []error
	r.content = r.contentOfReleases()
	// A configuration of the user may request what the newest run did not copy.
	complete := len(r.tags) > 0 || r.origins.complete && !r.configGiven
	listed := map[string]bool{fieldCharts: complete} // a chart may have no images
	for _, tag := range r.allTags() {
		field := r.field(tag)
		if field == "" || len(r.requests[tag]) > 0 || ownTags.MatchString(tag) {
			continue
		}
		if ref, ok := r.nameOf(tag); ok && r.has(ref) {
			continue // a mirror may have it under another tag
		}
		if field == fieldCharts && r.origins.complete && !r.configGiven && len(r.origins.names(tag, r.tags[tag])) == 0 {
			continue // of an earlier run: the cache keeps the images of all runs
		}
		if complete || r.origins.mapping[tag] != nil || r.origins.cached[tag] != nil {
			listed[field] = true
		}
		errs = append(errs, r.addUnnamed(tag))
	}
	for _, tag := range r.origins.failed {
		if ref, _ := r.nameOf(tag); r.field(tag) != "" && r.tags[tag] == "" && !r.has(ref) {
			errs = append(errs, r.addUnnamed(tag))
		}
	}
	r.unlistedFields = slices.DeleteFunc(slices.Clone(r.fields), func(field string) bool { return listed[field] })
	return errors.Join(errs...)
}

// allTags returns the tags of images or, without images, the tags in mappings and logs.
func (r unnamedFinder) allTags() []string {
	if len(r.tags) > 0 {
		return slices.Sorted(maps.Keys(r.tags))
	}
	all := map[string]bool{}
	for _, names := range []map[string][]string{r.origins.mapping, r.origins.cached, r.origins.logged} {
		for tag := range names {
			all[tag] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// field returns the field that requests the image of a tag without its name; "" if there is none,
// or if the image belongs to a release.
func (r *workspace) field(tag string) string {
	repository, _, _ := strings.Cut(tag, ":")
	is := func(own string) bool {
		return repository == own || len(r.tags) == 0 && strings.HasSuffix(repository, "/"+own)
	}
	field := fieldCharts
	switch {
	case is(graphImage):
		field = fieldGraph
	case is(releaseParts) && kubeVirtTag.MatchString(tag):
		field = fieldKubeVirt
	case is(releaseParts), is(releaseImages), r.ofRelease(tag, false):
		return ""
	case r.set == nil:
		return everything
	case slices.Contains(r.fields, fieldKubeVirt) && r.ofRelease(tag, true):
		field = fieldKubeVirt
	}
	if !slices.Contains(r.fields, field) {
		return ""
	}
	return field
}

// ofRelease reports whether a tag, which only logs have, is content of a release or, with
// sameRepository, another image of the same repository.
func (r *workspace) ofRelease(tag string, sameRepository bool) bool {
	if r.tags[tag] != "" {
		return false
	}
	ref, _ := r.nameOf(tag)
	digests, ok := r.content[ref.Repository]
	return ok && sameRepository != (digests[ref.Digest] || digests[""])
}

// contentOfReleases returns the digests of all images of the releases in the workspace, by
// repositories; "" stands for all of a repository.
func (r unnamedFinder) contentOfReleases() map[string]map[digest.Digest]bool {
	content := map[string]map[digest.Digest]bool{}
	add := func(repository string, d digest.Digest) {
		if content[repository] == nil {
			content[repository] = map[digest.Digest]bool{}
		}
		content[repository][d] = true
	}
	for _, m := range r.found.Releases {
		add(m.Repository, "")
	}
	for _, repository := range r.origins.releases {
		add(repository, "")
	}
	for _, name := range r.names {
		if !releaseManifests.MatchString(name) {
			continue
		}
		references, err := r.files.ReadFile(name)
		if err != nil {
			continue // reported for a requested release
		}
		release, _ := ParsePayload(references, nil)
		for _, c := range release.Components {
			add(c.Image.Repository, c.Image.Digest)
		}
	}
	return content
}

// unnamedFields lists the fields that request images without their names.
func (s *ImageSetConfig) unnamedFields() (fields []string) {
	if s == nil {
		return nil
	}
	if s.Mirror.Platform.Graph {
		fields = append(fields, fieldGraph)
	}
	if s.Mirror.Platform.KubeVirtContainer {
		fields = append(fields, fieldKubeVirt)
	}
	if s.charts() {
		fields = append(fields, fieldCharts)
	}
	return fields
}

// nameOf finds the name of an image by its tag. Mirror sets have names of all runs, so they are
// used only without a configuration.
func (r *workspace) nameOf(tag string) (pinset.Reference, bool) {
	ref, ok := r.origins.mapped(tag, r.tags[tag])
	if !ok && r.set == nil {
		ref, ok = r.origins.mirrored(tag)
	}
	return ref, ok
}

// has reports whether an image was found by its name, or is a catalog, which a mirror gets from the
// cache.
func (r unnamedFinder) has(ref pinset.Reference) bool {
	isCatalog := func(c Catalog) bool {
		catalog, _, err := parseMirrored(c.Catalog, "")
		return err == nil && catalog.Repository == ref.Repository
	}
	return len(r.taken[identity(ref)]) > 0 ||
		r.set != nil && len(r.tags) == 0 && slices.ContainsFunc(r.set.Mirror.Operators, isCatalog)
}

// addUnnamed adds an image that was requested without its name in a registry.
func (r *workspace) addUnnamed(tag string) error {
	ref, ok := r.nameOf(tag)
	if !ok {
		if !r.set.Blocked("", tag) && !r.excludes(MirroredImage{}, tag) {
			r.unnamedTags = append(r.unnamedTags, tag)
		}
		return nil
	}
	m, wanted, err := r.request(ref.String(), ref, tag)
	if wanted {
		if r.field(tag) == fieldCharts {
			m.FilteredBy = r.filteredBy("platforms of every chart", r.set.chartPlatforms())
		}
		r.add(m)
	}
	return err
}

// check refuses requested images without a name.
func (r unnamedFinder) check() error {
	var errs []error
	if len(r.unnamedTags) > 0 {
		errs = append(errs, fmt.Errorf("%w: %s", ErrUnknownNames, strings.Join(r.unnamedTags, ", ")))
	}
	for _, field := range r.unlistedFields {
		errs = append(errs, fmt.Errorf("%s of %s %w", field, r.origin, ErrUnknownImages))
	}
	return errors.Join(errs...)
}
