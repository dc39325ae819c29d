package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Errors of the requested names.
var (
	ErrCollision = fault.New(fault.Input,
		"different images have the same tag in the mirror, so that only one of them is there",
		"give one of them a targetRepo or targetTag in additionalImages of the ImageSetConfiguration (for a "+
			"catalog: targetCatalog or targetTag), and run oc-mirror again; the present output does not show which "+
			"image it has")
	ErrExclude = fault.New(fault.Input, "exclude pattern",
		"write it as REGISTRY/REPOSITORY, with or without :TAG or @DIGEST, or as REPOSITORY:TAG in the archive; * "+
			"and ? match anything but a /; components of a release are excluded with components.exclude")
)

// request is a requested name.
type request struct {
	pinset.Reference
	excluded bool
}

// request records the request of a name, and finds its image by the tag. text is the name as it is
// written. wanted is false for an image that is blocked or excluded.
func (r *workspace) request(text string, ref pinset.Reference, tag string) (m MirroredImage, wanted bool, err error) {
	if r.set.Blocked(text, tag) {
		return m, false, nil
	}
	m = MirroredImage{Reference: ref, Stored: ref.Digest}
	if m.Stored != "" {
		m.Tag = ""
	} else {
		m.Stored = r.tags[tag]
	}
	a := request{ref, r.excludes(m, tag)}
	r.requests[tag] = append(r.requests[tag], a)
	if !a.excluded && m.Stored == "" && len(r.tags) > 0 {
		err = fmt.Errorf("%s, which %s requests, %w: there is no %s", ref, r.origin, ErrNotMirrored, tag)
	}
	return m, !a.excluded, err
}

// excludes reports whether a pattern matches an image: its name, its repository, its tag in the
// mirror, or the repository there.
func (r *workspace) excludes(m MirroredImage, tag string) (found bool) {
	repository, _, _ := strings.Cut(tag, ":")
	names := []string{tag, repository}
	if m.Repository != "" {
		names = append(names, m.Repository, m.TagName(), m.Repository+"@"+m.Stored.String())
	}
	for _, p := range r.exclude {
		if slices.ContainsFunc(names, func(name string) bool { ok, _ := path.Match(p, name); return ok && name != "" }) {
			r.excludeMatched[p], found = true, true
		}
	}
	return found
}

// checkExclude refuses patterns that matched nothing, as they are probably misspelt.
func (r *workspace) checkExclude() (err error) {
	for _, p := range r.exclude {
		if !r.excludeMatched[p] {
			err = errors.Join(err, fmt.Errorf("%w %q: it matches no requested image", ErrExclude, p))
		}
	}
	return err
}

// collisions finds names that differ only in the host. They have the same tag in the mirror, which
// has one of the images. Without a digest it is unknown which.
func (r *workspace) collisions() error {
	var errs []error
	byRuns := r.namesByRuns()
	for _, tag := range slices.Sorted(maps.Keys(r.requests)) {
		names := slices.Clone(byRuns[tag])
		for _, a := range r.requests[tag] {
			names = append(names, a.Reference)
		}
		for _, n := range r.origins.logged[tag] { // such as an image of a chart
			if ref, err := pinset.ParseReference(n); err == nil {
				names = append(names, ref)
			}
		}
		for _, a := range r.requests[tag] {
			same := func(other pinset.Reference) bool { return other.Repository == a.Repository }
			other := slices.IndexFunc(names, func(n pinset.Reference) bool { return !same(n) })
			if a.excluded || a.Digest != "" || other < 0 {
				continue
			}
			err := fmt.Errorf("%w: %s and %s as %s", ErrCollision, a, names[other], tag)
			if len(byRuns[tag]) > 0 && !slices.ContainsFunc(byRuns[tag], same) {
				err = fmt.Errorf("%s, which %s requests, %w: %s is %s", a, r.origin, ErrNotMirrored, tag, names[other])
			}
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// namesByRuns returns the names for each tag, from the configuration of the newest run that has the
// tag. Another configuration may name the image differently, or only one of several.
func (r *workspace) namesByRuns() map[string][]pinset.Reference {
	all := map[string][]pinset.Reference{}
	runs := slices.DeleteFunc(slices.Clone(r.names), func(name string) bool { return !runTime.MatchString(name) })
	slices.SortFunc(runs, func(a, b string) int {
		return cmp.Compare(runTime.FindStringSubmatch(b)[1], runTime.FindStringSubmatch(a)[1])
	})
	for _, name := range runs {
		content, err := r.files.ReadFile(name)
		if err != nil {
			r.warn("%s: names are not read: %v", name, err)
			continue
		}
		set, err := ParseImageSetConfig(name, content)
		if err != nil {
			r.warn("%s: names are not read: %v", name, err)
			continue
		}
		for tag, names := range set.namesByTag() {
			if all[tag] == nil {
				all[tag] = names
			}
		}
	}
	return all
}

// namesByTag returns the names of additional images and of catalogs, by their tags in the mirror.
func (s *ImageSetConfig) namesByTag() map[string][]pinset.Reference {
	all := map[string][]pinset.Reference{}
	add := func(name, repository, tag string) {
		ref, mirrored, err := parseMirrored(name, s.origin)
		if mirrored = retarget(mirrored, repository, tag); err == nil && !s.Blocked(name, mirrored) {
			all[mirrored] = append(all[mirrored], ref)
		}
	}
	for _, img := range s.Mirror.AdditionalImages {
		add(img.Name, img.TargetRepo, img.TargetTag)
	}
	for _, c := range s.Mirror.Operators {
		add(c.Catalog, c.TargetCatalog, c.TargetTag)
	}
	return all
}
