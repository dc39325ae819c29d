package resolve

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrDuplicateName says that a name stands for two images.
var ErrDuplicateName = fault.New(fault.Input, "name stands for two images",
	"name it by digest in one of them, or give one of them another name")

// addTag records a tag by which an image was named.
func (r *resolver) addTag(img pinset.Image, tag string) { r.tags[img] = insert(r.tags[img], tag) }

// addOrigin records a set or a release that names an image.
func (r *resolver) addOrigin(img pinset.Image, origin string) {
	r.origins[img] = insert(r.origins[img], origin)
}

// insert inserts s into a sorted list, unless it is there already.
func insert(list []string, s string) []string {
	if i, found := slices.BinarySearch(list, s); !found {
		return slices.Insert(list, i, s)
	}
	return list
}

// add adds images to the set of a group, or to its sets, one for each pool.
func (r *resolver) add(group source.Group, origin string, images []pinset.Image) {
	if len(group.Pools) == 0 {
		r.addTo(group.Set, nil, origin, images)
	}
	for _, pool := range group.Pools {
		r.addTo(group.Set+"-"+pool, map[string]string{pinset.RoleLabel: pool}, origin, images)
	}
}

// addTo adds images to the generated set with the name.
func (r *resolver) addTo(name string, labels map[string]string, origin string, images []pinset.Image) {
	i := slices.IndexFunc(r.sets, func(s pinset.Set) bool { return s.Name == name && s.Generated })
	if i < 0 {
		i = len(r.sets)
		r.sets = append(r.sets, pinset.Set{Name: name, Labels: labels, Generated: true, Origin: origin})
	}
	r.sets[i].Images = append(r.sets[i].Images, images...)
}

// checkSets splits sets that are too large, sorts all sets, and reports names that the cluster's API
// would refuse.
func (r *resolver) checkSets() error {
	var sets []pinset.Set
	for _, s := range r.sets {
		if s.Generated { // several sources may have added the same image
			s.Images = pinset.Union(s)
		}
		sets = append(sets, s.Split()...)
	}
	r.sets = sets
	slices.SortStableFunc(r.sets, func(a, b pinset.Set) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range r.sets {
		if !pinset.ValidName(s.Name) { // the name of a set and a pool together may be too long
			return fmt.Errorf("%w: %s needs the set %q, whose name is not a lower-case RFC 1123 subdomain of at most "+
				"253 bytes: give it a shorter set, or pools of shorter names", spec.ErrAppliance, s.Origin, s.Name)
		}
		if i > 0 && s.Name == r.sets[i-1].Name {
			return fmt.Errorf("%s: %w: %q, also in %s", s.Origin, pinset.ErrDuplicateSet, s.Name, r.sets[i-1].Origin)
		}
		if s.Generated {
			r.warnings = append(r.warnings, s.Warnings()...)
		}
	}
	return r.checkTags()
}

// checkTags reports tags that stand for different images in two inputs: a name in a store is unique.
func (r *resolver) checkTags() error {
	var errs []error
	images := map[string]pinset.Image{}
	byName := func(a, b pinset.Image) int { return strings.Compare(a.String(), b.String()) }
	for _, img := range slices.SortedFunc(maps.Keys(r.tags), byName) {
		for _, tag := range r.tags[img] {
			if other, ok := images[tag]; ok {
				errs = append(errs, fmt.Errorf("%w: %s is %s in one input, and %s in another",
					ErrDuplicateName, tag, other.Digest, img.Digest))
			}
			images[tag] = img
		}
	}
	return errors.Join(errs...)
}

// joinOnce joins errors without those whose text is a repetition.
func joinOnce(errs []error) error {
	var once []error
	seen := map[string]bool{}
	var add func(errs []error)
	add = func(errs []error) {
		for _, err := range errs {
			if err == nil {
				continue
			}
			// A joined error has the texts of its parts.
			if joined, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(joined.Unwrap()...).Error() {
				add(joined.Unwrap())
			} else if !seen[err.Error()] {
				seen[err.Error()] = true
				once = append(once, err)
			}
		}
	}
	add(errs)
	return errors.Join(once...)
}
