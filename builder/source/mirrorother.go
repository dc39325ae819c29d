package source

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Images may be asked for otherwise than by their names.
var (
	// No file tells the names of images that are there.
	ErrUnknownNames = errors.New("no file tells the names of images that oc-mirror was asked for")
	// A field asks for images, and where there are none, no file tells which.
	ErrUnknownImages = errors.New("asks for images, and neither mapping.txt nor a whole log of the run names them")
)

var (
	// ownTags are signatures and the like, and catalogs that oc-mirror has built.
	ownTags = regexp.MustCompile(`:(?:sha256-[0-9a-f]{64}\.\w+|[0-9a-f]{32})$`)
	// kubeVirtTag is one of getKubeVirtImages in internal/pkg/release of oc-mirror.
	kubeVirtTag = regexp.MustCompile(`-kube-virt-container(?:-\w+)?$`)
)

// Fields of an ImageSetConfiguration that ask for images without their names. Without a
// configuration, everything is wanted.
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
	// Another configuration may ask for what the newest run did not copy.
	whole := len(r.tags) > 0 || r.origins.complete && !r.configGiven
	listed := map[string]bool{fieldCharts: whole} // a chart may have no images
	for _, place := range r.allTags() {
		field := r.field(place)
		if field == "" || len(r.requests[place]) > 0 || ownTags.MatchString(place) {
			continue
		}
		if ref, ok := r.nameOf(place); ok && r.has(ref) {
			continue // a mirror may have it in another place
		}
		if field == fieldCharts && r.origins.complete && !r.configGiven && len(r.origins.names(place, r.tags[place])) == 0 {
			continue // of an earlier run: the cache has them all
		}
		if whole || r.origins.mapping[place] != nil || r.origins.cached[place] != nil {
			listed[field] = true
		}
		errs = append(errs, r.addUnnamed(place))
	}
	for _, tag := range r.origins.failed {
		if ref, _ := r.nameOf(tag); r.field(tag) != "" && r.tags[tag] == "" && !r.has(ref) {
			errs = append(errs, r.addUnnamed(tag))
		}
	}
	r.unlistedFields = slices.DeleteFunc(slices.Clone(r.fields), func(field string) bool { return listed[field] })
	return errors.Join(errs...)
}

// places are the tags of images or, without the images, where a mapping and a log have
// them.
func (r unnamedFinder) allTags() []string {
	if len(r.tags) > 0 {
		return slices.Sorted(maps.Keys(r.tags))
	}
	all := map[string]bool{}
	for _, names := range []map[string][]string{r.origins.mapping, r.origins.cached, r.origins.logged} {
		for place := range names {
			all[place] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// field is that which asks for what is in a place under no other name; "" for what
// belongs to a release, or if nobody does.
func (r *workspace) field(place string) string {
	repository, _, _ := strings.Cut(place, ":")
	is := func(own string) bool {
		return repository == own || len(r.tags) == 0 && strings.HasSuffix(repository, "/"+own)
	}
	field := fieldCharts
	switch {
	case is(graphImage):
		field = fieldGraph
	case is(releaseParts) && kubeVirtTag.MatchString(place):
		field = fieldKubeVirt
	case is(releaseParts), is(releaseImages), r.ofRelease(place, false):
		return ""
	case r.set == nil:
		return everything
	case slices.Contains(r.fields, fieldKubeVirt) && r.ofRelease(place, true):
		field = fieldKubeVirt
	}
	if !slices.Contains(r.fields, field) {
		return ""
	}
	return field
}

// ofRelease says whether a log has content of a release in a place, or, beside it, what is
// only of the same repository. It has them under their own names.
func (r *workspace) ofRelease(place string, beside bool) bool {
	if r.tags[place] != "" {
		return false
	}
	ref, _ := r.nameOf(place)
	digests, ok := r.content[ref.Repository]
	return ok && beside != (digests[ref.Digest] || digests[""])
}

// contentOfReleases are the digests of what all releases have that are kept, by repositories;
// "" for all of a repository.
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
			continue // a release that is wanted has told it
		}
		release, _ := ParsePayload(references, nil)
		for _, c := range release.Components {
			add(c.Image.Repository, c.Image.Digest)
		}
	}
	return content
}

// nameless lists the fields that ask for images without their names.
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

// nameAt finds the name of an image by its place. A mirror set does not tell what a run
// was asked for.
func (r *workspace) nameOf(place string) (pinset.Reference, bool) {
	ref, ok := r.origins.mapped(place, r.tags[place])
	if !ok && r.set == nil {
		ref, ok = r.origins.mirrored(place)
	}
	return ref, ok
}

// has says whether an image was found by its name; or is a catalog, which a mirror gets
// from the cache.
func (r unnamedFinder) has(ref pinset.Reference) bool {
	isCatalog := func(c Catalog) bool {
		catalog, _, err := parseMirrored(c.Catalog, "")
		return err == nil && catalog.Repository == ref.Repository
	}
	return len(r.taken[identity(ref)]) > 0 ||
		r.set != nil && len(r.tags) == 0 && slices.ContainsFunc(r.set.Mirror.Operators, isCatalog)
}

// unnamed takes an image that was not asked for by its name in a registry.
func (r *workspace) addUnnamed(place string) error {
	ref, ok := r.nameOf(place)
	if !ok {
		if !r.set.Blocked("", place) && !r.excludes(MirroredImage{}, place) {
			r.unnamedTags = append(r.unnamedTags, place)
		}
		return nil
	}
	m, wanted, err := r.request(ref.String(), ref, place)
	if wanted {
		if r.field(place) == fieldCharts {
			m.FilteredBy = r.filteredBy("platforms of every chart", r.set.chartPlatforms())
		}
		r.add(m)
	}
	return err
}

// named refuses to leave out what has no name.
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
