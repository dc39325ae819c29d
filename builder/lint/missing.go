package lint

import (
	"cmp"
	"slices"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Missing are the images of something in a cluster that a store does not have.
type Missing struct {
	source.Live
	// Images are full names, sorted.
	Images []string `json:"images"`
}

// MissingInCluster groups the images that the lock does not have by the namespace and the owner of the objects which
// name them, for objects that a cluster has printed.
func MissingInCluster(objects source.Objects, lock pinset.Lock) (all []Missing) {
	s, images := newStore(lock), map[source.Live][]string{}
	add := func(of source.Live, ref pinset.Reference) {
		if of != (source.Live{}) && !s.has(ref) && !slices.Contains(images[of], ref.String()) {
			images[of] = append(images[of], ref.String())
		}
	}
	for _, use := range objects.Uses {
		if ref, _, err := pinset.Expand(use.Image.Text); err == nil && !use.Expression {
			add(use.From, ref)
		}
	}
	for _, p := range objects.Possible {
		add(p.From, p.Reference)
	}
	for of, names := range images {
		slices.Sort(names)
		all = append(all, Missing{of, names})
	}
	slices.SortFunc(all, func(a, b Missing) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Owner, b.Owner))
	})
	return all
}
