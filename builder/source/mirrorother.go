package source

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrUnnamed says that images were asked for otherwise than by their names, and that no
// file tells those.
var ErrUnnamed = errors.New("no file tells the names of images that oc-mirror was asked for")

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

// others are images that only their origins name: those of such fields, and all where no
// configuration tells what was wanted.
func (r *workspace) others() error {
	var errs []error
	found := map[string]bool{fieldCharts: len(r.tags) > 0} // a chart may have no images
	for _, place := range r.places() {
		field := r.field(place)
		if field == "" || len(r.asked[place]) > 0 || ownTags.MatchString(place) {
			continue
		}
		found[field] = true
		if ref, ok := r.nameAt(place); ok && r.has(ref) {
			continue // a mirror may have it in another place
		} else if !ok && field == fieldCharts && r.origins.complete && !r.given {
			continue // of an earlier run: the cache has them all
		}
		errs = append(errs, r.unnamed(place))
	}
	for _, tag := range r.origins.failed {
		if ref, _ := r.nameAt(tag); r.field(tag) != "" && r.tags[tag] == "" && !r.has(ref) {
			errs = append(errs, r.unnamed(tag))
		}
	}
	for _, field := range r.set.nameless() {
		if !found[field] {
			errs = append(errs, r.unnamed(field))
		}
	}
	return errors.Join(errs...)
}

// places are the tags of images, as far as is known without the images.
func (r *workspace) places() []string {
	if len(r.tags) > 0 {
		return slices.Sorted(maps.Keys(r.tags))
	}
	places := slices.AppendSeq(slices.Collect(maps.Keys(r.origins.mapping)), maps.Keys(r.origins.cached))
	slices.Sort(places)
	return slices.Compact(places)
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
	case is(releaseParts), is(releaseImages):
		return ""
	case r.set == nil:
		return everything
	}
	if !slices.Contains(r.set.nameless(), field) {
		return ""
	}
	return field
}

// nameless lists the fields that ask for images without their names.
func (s *ImageSet) nameless() (fields []string) {
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
func (r *workspace) nameAt(place string) (pinset.Reference, bool) {
	ref, ok := r.origins.mapped(place, r.tags[place])
	if !ok && r.set == nil {
		ref, ok = r.origins.mirrored(place)
	}
	return ref, ok
}

// has says whether an image was found by its name; or is a catalog, which a mirror gets
// from the cache.
func (r *workspace) has(ref pinset.Reference) bool {
	return len(r.taken[known(ref)]) > 0 || r.set != nil && len(r.tags) == 0 && slices.ContainsFunc(r.set.Mirror.Operators, func(c Catalog) bool {
		catalog, _, err := parseMirrored(c.Catalog, "")
		return err == nil && catalog.Repository == ref.Repository
	})
}

// unnamed takes an image that was not asked for by its name in a registry.
func (r *workspace) unnamed(place string) error {
	ref, ok := r.nameAt(place)
	if !ok {
		if !r.set.Blocks("", place) && !r.excludes(Mirrored{}, place) {
			r.nameless = append(r.nameless, place)
		}
		return nil
	}
	m, wanted, err := r.find(ref.String(), ref, place)
	if wanted {
		if r.field(place) == fieldCharts {
			m.Dropped = r.dropped("platforms of every chart", r.set.chartPlatforms())
		}
		r.take(m)
	}
	return err
}

// named refuses to leave out what has no name.
func (r *workspace) named() error {
	if len(r.nameless) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnnamed, strings.Join(r.nameless, ", "))
}
