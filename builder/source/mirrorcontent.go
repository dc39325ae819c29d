package source

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrOCMirror says that something is not what oc-mirror v2 leaves.
var ErrOCMirror = errors.New("not a whole archive or workspace of oc-mirror v2")

// What was asked for and is not there.
var (
	ErrNotMirrored      = errors.New("is not in what oc-mirror has left")
	ErrPlatformFiltered = errors.New("oc-mirror was told not to mirror it for this platform")
)

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
}

// MirroredImage is an image that oc-mirror has taken, by the name that it had before.
type MirroredImage struct {
	// Reference has the tag, if it was asked for by a tag alone.
	pinset.Reference
	// Stored is the manifest's digest, "" if there are names here and no images.
	Stored digest.Digest
	// References is the file that lists the components of a release.
	References string
	// FilteredBy says which field left out the instances for the platform, "" if none did.
	FilteredBy string
}

// MirrorContent is what a workspace or archives of oc-mirror v2 hold.
type MirrorContent struct {
	Releases []MirroredImage
	// Images that belong to no release.
	Images   []MirroredImage
	Warnings []string
	// Blocked says whether a component of a release has been left out, by its name.
	Blocked func(name string) bool
}

// MirrorOptions is what an appliance takes of an archive or a workspace.
type MirrorOptions struct {
	// Config is the ImageSetConfiguration to go by, instead of that in the files; nil for
	// that one.
	Config *ImageSetConfig
	// Exclude are patterns of names of images that belong to no release, and fields.
	Exclude  []string
	Platform pinset.Platform
}

// ReadOCMirror finds what oc-mirror was asked for last, and the names of it; the
// registry's tree in an archive has neither. tags are those of that tree,
// "repository:tag" without the host; none if there are no images.
func ReadOCMirror(files Files, tags map[string]digest.Digest, w MirrorOptions) (MirrorContent, error) {
	r := &workspace{
		files: files, names: files.Names(), tags: tags, set: w.Config, configGiven: w.Config != nil,
		exclude: w.Exclude, excludeMatched: map[string]bool{}, requests: map[string][]request{}, taken: map[pinset.Reference][]int{},
	}
	r.os, r.arch, _ = w.Platform.Split()
	var err error
	for _, step := range []func() error{
		r.readConfig, r.readOrigins, releaseFinder{r}.find, r.additional, catalogReader{r}.readAll,
		unnamedFinder{r}.find, r.checkExclude, unnamedFinder{r}.check,
	} {
		if err = step(); err != nil {
			break
		}
	}
	if err = errors.Join(r.collisions(), err); err != nil { // the one may be the reason of the other
		return MirrorContent{}, err
	}
	if len(r.found.Releases)+len(r.found.Images) == 0 {
		return MirrorContent{}, withWarnings(fmt.Errorf("%w: no image in it has a name", ErrOCMirror), r.found.Warnings)
	}
	r.found.Blocked = func(name string) bool { return r.set.Blocked(name, "") }
	return r.found, nil
}

type workspace struct {
	files Files
	names []string
	tags  map[string]digest.Digest
	// set is nil if nothing tells what oc-mirror was asked for; given if the user names it.
	set         *ImageSetConfig
	configGiven bool
	// origin is what tells what oc-mirror was asked for, for messages.
	origin  string
	os      string
	arch    string
	origins origins
	// asked are the names that were asked for, by the tags under which they are kept.
	requests map[string][]request
	// exclude patterns, and those that have matched.
	exclude        []string
	excludeMatched map[string]bool
	// fields ask for images without their names. unlisted are those of which no file names
	// any, and nameless the tags of images that were asked for, and have no name.
	fields, unlistedFields, unnamedTags []string
	// content is what belongs to releases.
	content map[string]map[digest.Digest]bool
	found   MirrorContent
	// taken are the places of images in found, by their names.
	taken map[pinset.Reference][]int
}

func (r *workspace) warn(format string, args ...any) {
	r.found.Warnings = append(r.found.Warnings, fmt.Sprintf(format, args...))
}

// runTime finds the time in the name of a configuration that oc-mirror has written:
// at the end of an archive, or in the workspace.
var runTime = regexp.MustCompile(`^(?:isc_|working-dir/isc_pinned_)(\d{4}-.*?)(?:\.yaml)?$`)

// NewestRun is the newest configuration in the files, and the time in its name; "" if
// there is none. Of one run, that of the archive counts: in the workspace, catalogs
// have lost their tags.
func NewestRun(names []string) (name, at string) {
	for _, n := range names {
		if m := runTime.FindStringSubmatch(n); m != nil && (m[1] > at || m[1] == at && strings.HasPrefix(n, "isc_")) {
			name, at = n, m[1]
		}
	}
	return name, at
}

func (r *workspace) readConfig() error {
	if r.set == nil {
		newest, _ := NewestRun(r.names)
		if newest == "" {
			r.origin = "the log of the run"
			return nil
		}
		content, err := r.files.ReadFile(newest)
		if err != nil {
			return err
		}
		if r.set, err = ParseImageSetConfig(newest, content); err != nil {
			return err
		}
	}
	r.origin = r.set.origin
	for _, field := range r.set.unnamedFields() {
		if slices.Contains(r.exclude, field) {
			r.excludeMatched[field] = true
		} else {
			r.fields = append(r.fields, field)
		}
	}
	return nil
}

// parseMirrored reads a name as oc-mirror does, and gives the tag under which it
// keeps the image: without the host.
func parseMirrored(text, origin string) (ref pinset.Reference, tag string, err error) {
	text = strings.TrimPrefix(text, "docker://")
	ref, short, err := pinset.Expand(text)
	if err == nil && short {
		err = fmt.Errorf("image %q: %w", text, pinset.ErrShortName)
	}
	if err != nil {
		return ref, "", fmt.Errorf("%s: %w", origin, err)
	}
	return ref, mirrorTag(text, ref.Digest), nil
}

// mirrorTag is the tag of an image by its name as it is written: docker.io/nginx is no
// library/nginx there.
func mirrorTag(text string, d digest.Digest) string {
	name, _, _ := strings.Cut(text, "@")
	_, path, ok := strings.Cut(name, "/")
	if !ok {
		path = name
	}
	switch {
	case strings.Contains(path, ":"):
		return path
	case d != "":
		return path + ":" + strings.Replace(d.String(), ":", "-", 1)
	}
	return path + ":latest"
}

func (r *workspace) additional() error {
	if r.set == nil {
		return nil
	}
	var errs []error
	for i, img := range r.set.Mirror.AdditionalImages {
		if strings.HasPrefix(img.Name, "oci:") {
			folder := strings.TrimPrefix(bareName(img.Name), "/")
			errs = append(errs, r.addUnnamed(retarget(folder+":latest", img.TargetRepo, img.TargetTag)))
			continue
		}
		ref, tag, err := parseMirrored(img.Name, fmt.Sprintf("%s: mirror.additionalImages[%d]", r.origin, i))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m, wanted, err := r.request(img.Name, ref, retarget(tag, img.TargetRepo, img.TargetTag))
		if wanted {
			m.FilteredBy = r.filteredBy(fmt.Sprintf("mirror.additionalImages[%d].platforms", i), img.Platforms)
			r.add(m)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// take adds an image. If something asks for all instances of it, none is left out.
func (r *workspace) add(m MirroredImage) {
	name := identity(m.Reference)
	for _, i := range r.taken[name] {
		if has := &r.found.Images[i]; has.Reference == m.Reference && has.Stored == m.Stored {
			if m.FilteredBy == "" {
				has.FilteredBy = ""
			}
			return
		}
	}
	r.taken[name] = append(r.taken[name], len(r.found.Images))
	r.found.Images = append(r.found.Images, m)
}

// known is what an image is known by: beside a digest, a tag does not count.
func identity(ref pinset.Reference) pinset.Reference {
	if ref.Digest != "" {
		ref.Tag = ""
	}
	return ref
}

// dropped says whether a field leaves out the instances for our platform.
func (r *workspace) filteredBy(field string, platforms []platform) string {
	var has []string
	for _, p := range platforms {
		if p.OS == r.os && p.Architecture == r.arch {
			return ""
		}
		has = append(has, p.OS+"/"+p.Architecture)
	}
	if len(has) == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s has %s", field, r.origin, strings.Join(has, ", "))
}

// retarget puts other names where a configuration wants them.
func retarget(stored, repository, tag string) string {
	r, t, _ := strings.Cut(stored, ":")
	return cmp.Or(repository, r) + ":" + cmp.Or(tag, t)
}
