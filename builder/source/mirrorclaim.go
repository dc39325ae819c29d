package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrCollision says that an image may be that of another name.
var ErrCollision = errors.New("names of different images have been kept as one, so that only one of them is there")

// claim finds an image of that name under a tag.
func (r *workspace) claim(ref pinset.Reference, tag string) (Mirrored, error) {
	r.claimed[tag] = append(r.claimed[tag], ref)
	m := Mirrored{Reference: ref, Stored: ref.Digest}
	if m.Stored != "" {
		m.Tag = ""
	} else if m.Stored = r.tags[tag]; m.Stored == "" && len(r.tags) > 0 {
		return m, fmt.Errorf("%s, which %s asks for, %w: there is no %s", ref, r.set.origin, ErrNotMirrored, tag)
	}
	return m, nil
}

// collisions finds names that differ in the host alone. They have one tag, under which
// one image is kept, and nothing tells which: only a digest would.
func (r *workspace) collisions() error {
	var errs []error
	kept := r.keptByRuns()
	for _, tag := range slices.Sorted(maps.Keys(r.claimed)) {
		names := slices.Clone(kept[tag])
		names = append(names, r.claimed[tag]...)
		for _, c := range r.claimed[tag] {
			same := func(other pinset.Reference) bool { return other.Repository == c.Repository }
			other := slices.IndexFunc(names, func(n pinset.Reference) bool { return !same(n) })
			if c.Digest != "" || other < 0 {
				continue
			}
			err := fmt.Errorf("%w: %s and %s as %s", ErrCollision, c, names[other], tag)
			if len(kept[tag]) > 0 && !slices.ContainsFunc(kept[tag], same) {
				err = fmt.Errorf("%s, which %s asks for, %w: %s is %s", c, r.set.origin, ErrNotMirrored, tag, names[other])
			}
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// keptByRuns are the names of what is under each tag, by the configuration of the newest
// run that had the tag. Another configuration may name the image otherwise, or just one of
// several.
func (r *workspace) keptByRuns() map[string][]pinset.Reference {
	all := map[string][]pinset.Reference{}
	runs := slices.DeleteFunc(slices.Clone(r.names), func(name string) bool { return !runTime.MatchString(name) })
	slices.SortFunc(runs, func(a, b string) int {
		return cmp.Compare(runTime.FindStringSubmatch(b)[1], runTime.FindStringSubmatch(a)[1])
	})
	for _, name := range runs {
		content, err := r.files.ReadFile(name)
		if err != nil {
			r.warn("%s tells no names: %v", name, err)
			continue
		}
		set, err := ParseImageSet(name, content)
		if err != nil {
			r.warn("%s tells no names: %v", name, err)
			continue
		}
		for tag, names := range set.kept() {
			if all[tag] == nil {
				all[tag] = names
			}
		}
	}
	return all
}

// kept are the names of additional images and of catalogs, by the tags under which
// oc-mirror keeps them.
func (s *ImageSet) kept() map[string][]pinset.Reference {
	all := map[string][]pinset.Reference{}
	add := func(name, repository, tag string) {
		ref, kept, err := parseMirrored(name, s.origin)
		if kept = retarget(kept, repository, tag); err == nil && !s.Blocks(name, kept) {
			all[kept] = append(all[kept], ref)
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
