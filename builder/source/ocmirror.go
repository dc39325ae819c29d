package source

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrOCMirror says that something is not what oc-mirror v2 leaves.
var ErrOCMirror = errors.New("not a whole archive or workspace of oc-mirror v2")

// Names that oc-mirror v2 gives: internal/pkg/release/const.go and internal/pkg/
// archive there.
const (
	workingDir    = "working-dir/"
	releaseImages = "openshift/release-images"
	releaseParts  = "openshift/release"
	graphImage    = "openshift/graph-image"
)

// Files is what a workspace or archives have.
type Files interface {
	Names() []string
	ReadFile(name string) ([]byte, error)
	ModTime(name string) time.Time
}

// Mirrored is an image that oc-mirror has taken, by the name that it had before.
type Mirrored struct {
	// Reference has the tag, if it was asked for by a tag alone.
	pinset.Reference
	// Stored is the manifest's digest, "" if there are names here and no images.
	Stored digest.Digest
	// References is the file that lists the components of a release.
	References string
}

// OCMirror is what a workspace or archives of oc-mirror v2 hold.
type OCMirror struct {
	Releases []Mirrored
	// Images that belong to no release.
	Images   []Mirrored
	Warnings []string
}

// ReadOCMirror finds what oc-mirror was asked for last, and the names of it; the
// registry's tree in an archive has neither. tags are those of that tree,
// "repository:tag" without the host; none if there are no images. config is the
// ImageSetConfiguration to go by, instead of that in the files; nil for that one.
func ReadOCMirror(files Files, tags map[string]digest.Digest, config *ImageSet, platform pinset.Platform) (OCMirror, error) {
	r := workspace{files: files, names: files.Names(), tags: tags, set: config, claimed: map[string]string{}}
	_, r.arch, _ = platform.Split()
	steps := []func() error{r.readSet, r.readOrigins, r.releases, r.additional, r.operators, r.others}
	for _, step := range steps {
		if err := step(); err != nil {
			return OCMirror{}, err
		}
	}
	if len(r.found.Releases)+len(r.found.Images) == 0 {
		return OCMirror{}, fmt.Errorf("%w: no image in it has a name", ErrOCMirror)
	}
	return r.found, nil
}

type workspace struct {
	files Files
	names []string
	tags  map[string]digest.Digest
	// set is nil if nothing tells what oc-mirror was asked for.
	set     *ImageSet
	arch    string
	origins origins
	// claimed tags, and the names that claim them.
	claimed map[string]string
	found   OCMirror
}

var configName = regexp.MustCompile(`^(?:isc_|working-dir/isc_pinned_)\d{4}-`)

// readSet takes the newest of the configurations; that of an archive goes before
// those of the workspace, in which catalogs have lost their tags.
func (r *workspace) readSet() (err error) {
	if r.set != nil {
		return nil
	}
	newest := ""
	for _, name := range r.names {
		if configName.MatchString(name) && (newest == "" || strings.HasPrefix(name, "isc_") || !strings.HasPrefix(newest, "isc_")) {
			newest = name // they are sorted, and have the time in their names
		}
	}
	if newest == "" {
		return nil
	}
	content, err := r.files.ReadFile(newest)
	if err == nil {
		r.set, err = ParseImageSet(newest, content)
	}
	return err
}

// stored is the tag under which oc-mirror keeps an image: the host is dropped.
func stored(ref pinset.Reference) string {
	_, path, _ := strings.Cut(ref.Repository, "/")
	if ref.Tag != "" {
		return path + ":" + ref.Tag
	}
	return path + ":" + strings.Replace(ref.Digest.String(), ":", "-", 1)
}

// claim finds an image of that name under a tag.
func (r *workspace) claim(ref pinset.Reference, tag string) (Mirrored, error) {
	name := ref.String()
	if other, ok := r.claimed[tag]; ok && other != name && ref.Digest == "" {
		return Mirrored{}, fmt.Errorf("%w: %s and %s have both been kept as %s, so that only one of them is there", ErrOCMirror, other, name, tag)
	}
	r.claimed[tag] = name
	m := Mirrored{Reference: ref, Stored: ref.Digest}
	if m.Stored != "" {
		m.Tag = ""
	} else if m.Stored = r.tags[tag]; m.Stored == "" && len(r.tags) > 0 {
		return m, fmt.Errorf("%w: it has no %s, which it should have as %s", ErrOCMirror, name, tag)
	}
	return m, nil
}

func (r *workspace) additional() error {
	if r.set == nil {
		return nil
	}
	var errs []error
	for i, img := range r.set.Mirror.AdditionalImages {
		if r.set.Blocks(img.Name) {
			continue
		}
		named, err := parse(img.Name, fmt.Sprintf("%s: mirror.additionalImages[%d]", r.set.origin, i))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tag := stored(named.Reference)
		if img.TargetRepo != "" {
			tag = img.TargetRepo + tag[strings.LastIndex(tag, ":"):]
		}
		if img.TargetTag != "" {
			tag = tag[:strings.LastIndex(tag, ":")+1] + img.TargetTag
		}
		m, err := r.claim(named.Reference, tag)
		r.found.Images, errs = append(r.found.Images, m), append(errs, err)
	}
	return errors.Join(errs...)
}

// ownTags are signatures and the like, and catalogs that oc-mirror has built.
var ownTags = regexp.MustCompile(`:(?:sha256-[0-9a-f]{64}\.\w+|[0-9a-f]{32})$`)

// others are images that only their origins name: those of charts, and all where no
// configuration tells what was wanted.
func (r *workspace) others() error {
	if r.set != nil && !r.set.charts() {
		return nil
	}
	for _, tag := range slices.Sorted(maps.Keys(r.tags)) {
		repository := tag[:strings.LastIndex(tag, ":")]
		if r.claimed[tag] != "" || ownTags.MatchString(tag) || slices.Contains([]string{releaseImages, releaseParts, graphImage}, repository) {
			continue
		}
		ref, ok := r.origins.of(tag)
		if !ok {
			r.found.Warnings = append(r.found.Warnings, fmt.Sprintf("%s in the archive is left out: neither a mapping nor a mirror set tells its name", tag))
			continue
		}
		if r.set == nil || !r.set.Blocks(ref.String()) {
			r.found.Images = append(r.found.Images, Mirrored{Reference: ref, Stored: r.tags[tag]})
		}
	}
	return nil
}
