package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrOCMirror is returned for files that are not complete output of oc-mirror v2.
var ErrOCMirror = fault.New(fault.Input, "not a complete archive or workspace of oc-mirror v2",
	"name mirror_*.tar with all its parts, or a workspace of oc-mirror v2; or run oc-mirror again")

// Errors of an image that was requested and is not there.
var (
	ErrNotMirrored = fault.New(fault.Input, "is not in the output of oc-mirror",
		"add the archive of the run that mirrored it, name an older ImageSetConfiguration with --image-set-config, "+
			"or build for another --platform")
	ErrPlatformFiltered = fault.New(fault.Input, "oc-mirror was told not to mirror it for this platform",
		"add the platform to `platforms` of the ImageSetConfiguration and run oc-mirror again, or build for one of "+
			"its platforms with --platform")
)

// Names in the output of oc-mirror v2: internal/pkg/release/const.go and internal/pkg/ archive
// there.
const (
	workingDir    = "working-dir/"
	releaseImages = "openshift/release-images"
	releaseParts  = "openshift/release"
	graphImage    = "openshift/graph-image"
)

// Files are the files of a workspace or of archives.
type Files interface {
	Names() []string
	ReadFile(name string) ([]byte, error)
}

// MirroredImage is an image that oc-mirror copied, by its name before that.
type MirroredImage struct {
	// Reference has the tag if the request had no digest.
	pinset.Reference
	// Stored is the manifest's digest, "" if there are only names, without images.
	Stored digest.Digest
	// References is the file that lists the components of a release.
	References string
	// FilteredBy is the field that made oc-mirror leave out the instances for the platform, "" if
	// none did.
	FilteredBy string
}

// MirrorContent is the content of a workspace or of archives of oc-mirror v2.
type MirrorContent struct {
	Releases []MirroredImage
	// Images that belong to no release.
	Images   []MirroredImage
	Warnings []string
	// Blocked reports whether a component of a release was left out, by its name.
	Blocked func(name string) bool
}

// MirrorOptions select images of the output of oc-mirror.
type MirrorOptions struct {
	// Config is the ImageSetConfiguration to use instead of the newest in the files; nil for that
	// one.
	Config *ImageSetConfig
	// Exclude has patterns for the names of images that belong to no release, and names of fields.
	Exclude  []string
	Platform pinset.Platform
}

// ReadOCMirror finds what oc-mirror was requested to copy last, with the original names: the tree
// of the registry in an archive has neither. tags are the tags of that tree, "repository:tag"
// without the host; none if there are no images.
func ReadOCMirror(
	ctx context.Context, files Files, tags map[string]digest.Digest, w MirrorOptions,
) (MirrorContent, error) {
	r := &workspace{
		interrupted: ctx.Err, files: files, names: files.Names(), tags: tags, set: w.Config, configGiven: w.Config != nil,
		exclude: w.Exclude, excludeMatched: map[string]bool{}, requests: map[string][]request{},
		taken: map[pinset.Reference][]int{},
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
	if err = errors.Join(r.collisions(), err); err != nil { // a collision may be the reason for err
		return MirrorContent{}, err
	}
	if len(r.found.Releases)+len(r.found.Images) == 0 {
		return MirrorContent{}, withWarnings(fmt.Errorf("%w: it has no image with a name", ErrOCMirror), r.found.Warnings)
	}
	r.found.Blocked = func(name string) bool { return r.set.Blocked(name, "") }
	return r.found, nil
}

// workspace is the output of oc-mirror: a workspace, or archives, which have the same files.
type workspace struct {
	// interrupted returns an error once the user has called it off: a catalog has hundreds of MB.
	interrupted func() error

	files Files
	names []string
	tags  map[string]digest.Digest
	// set is the configuration of the run, nil if there is none. configGiven is true if the user
	// named it.
	set         *ImageSetConfig
	configGiven bool
	// origin names the configuration, or the log, for messages.
	origin  string
	os      string
	arch    string
	origins origins
	// requests are the requested names, by their tags in the mirror.
	requests map[string][]request
	// exclude has the patterns, and excludeMatched the patterns that matched.
	exclude        []string
	excludeMatched map[string]bool
	// fields request images without their names. unlistedFields are those for which no file has
	// names, and unnamedTags the tags of requested images without a name.
	fields, unlistedFields, unnamedTags []string
	// content has the images of releases: contentOfReleases.
	content map[string]map[digest.Digest]bool
	found   MirrorContent
	// taken has the indices of images in found, by their names.
	taken map[pinset.Reference][]int
}

func (r *workspace) warn(format string, args ...any) {
	r.found.Warnings = append(r.found.Warnings, fmt.Sprintf(format, args...))
}

// runTime matches the time in the name of a configuration that oc-mirror wrote: at the end of an
// archive, or in the workspace.
var runTime = regexp.MustCompile(`^(?:isc_|working-dir/isc_pinned_)(\d{4}-.*?)(?:\.yaml)?$`)

// NewestRun is the newest configuration in the files, and the time in its name; "" if there is
// none. Of the same run, the one in the archive is used: in the workspace, catalogs have no tags.
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

// parseMirrored parses a name as oc-mirror does, and returns the tag in the mirror: without the
// host.
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

// mirrorTag is the tag in the mirror of a name as it is written: docker.io/nginx does not become
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

// additional adds the additional images of the configuration.
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

// add adds an image. If one of several requests is for all instances, it gets all.
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

// identity is the reference without the tag if it has a digest.
func identity(ref pinset.Reference) pinset.Reference {
	if ref.Digest != "" {
		ref.Tag = ""
	}
	return ref
}

// filteredBy describes a field if its platforms do not include the nodes' platform; else it returns "".
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

// retarget replaces the repository and the tag, unless they are "": targetRepo and targetTag of a
// configuration.
func retarget(stored, repository, tag string) string {
	r, t, _ := strings.Cut(stored, ":")
	return cmp.Or(repository, r) + ":" + cmp.Or(tag, t)
}
