package cluster

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// State is whether what is known of the cluster is what its API has.
type State string

// The API answers; or it does not, or refuses; or it serves no PinnedImageSets.
const (
	Current     State = "current"
	Unreachable State = "unreachable"
	NotServed   State = "notServed"
)

// Known is what a node knows of its cluster: cluster.json. What the API loses without deleting it stays.
type Known struct {
	Version int   `json:"version"`
	State   State `json:"state"`
	// Since is when the state began, and Reason why it is another than Current.
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// ResourceVersion is the last one of the API, "" before the sets were listed once.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Registered means that the API had the node once, with these roles.
	Registered bool     `json:"registered"`
	Roles      []string `json:"roles"`
	// FirstSync is when both the sets and the roles were known first.
	FirstSync time.Time `json:"firstSync,omitzero"`
	// Sets are all sets of the cluster, sorted by name.
	Sets []Set `json:"sets"`
	// Refused says which sets are not taken, and why: the ones that were known before stay.
	Refused []string `json:"refused,omitempty"`
	// Operator is what the Machine Config Operator last reported of the sets of the node, if it pins there. The
	// generation of the API is 0 here.
	Operator []runtime.OperatorSet `json:"operator,omitempty"`
}

// Set is a PinnedImageSet of the API.
type Set struct {
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
	// Created is when the API made the object.
	Created time.Time `json:"created"`
	// Role is the value of the role label; nil without it.
	Role   *string  `json:"role,omitempty"`
	Images []string `json:"images"`
	// ResourceVersion is that of the object in the API, "" if the API has lost it.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Store is the value of pinset.StoreAnnotation; "" without it.
	Store string `json:"store,omitempty"`
	// KeptSince is when the API lost the set, or this generation of it, without a deletion.
	KeptSince time.Time `json:"keptSince,omitzero"`
}

func (s Set) kept() bool { return !s.KeptSince.IsZero() }

// Listed reports that the sets were listed once.
func (k *Known) Listed() bool { return k.ResourceVersion != "" }

func (k *Known) find(name string) int {
	return slices.IndexFunc(k.Sets, func(s Set) bool { return s.Name == name })
}

// answered notes that the API answers.
func (k *Known) answered(now time.Time) { k.enter(Current, "", now) }

// failed notes why the API does not answer.
func (k *Known) failed(reason string, now time.Time) { k.enter(Unreachable, reason, now) }

// lost notes that the API serves no sets. All of them are kept: when it serves sets again, it may have lost them.
func (k *Known) lost(reason string, now time.Time) {
	k.enter(NotServed, reason, now)
	for i := range k.Sets {
		k.Sets[i].keep("", now)
	}
}

// enter changes the state. The reason is the one with which it began.
func (k *Known) enter(state State, reason string, now time.Time) {
	if k.State != state {
		k.State, k.Reason, k.Since = state, reason, now.UTC()
	}
}

// keep notes that the API has another object of the name, or none.
func (s *Set) keep(resourceVersion string, now time.Time) {
	s.ResourceVersion = resourceVersion
	if !s.kept() {
		s.KeptSince = now.UTC()
	}
}

// list takes a list of the API, and returns the names of the sets that it does not have and that were deleted. If the
// resource version is less than the last one, etcd has an older state: then sets that are missing were lost.
func (k *Known) list(found []Set, resourceVersion string, now time.Time) (deleted []string) {
	back := less(resourceVersion, k.ResourceVersion)
	k.ResourceVersion = resourceVersion
	for i := range k.Sets {
		known := &k.Sets[i]
		n := slices.IndexFunc(found, func(s Set) bool { return s.Name == known.Name })
		switch {
		case n < 0 && back:
			known.keep("", now)
		case n < 0 && known.kept() && known.ResourceVersion == "":
		case n < 0:
			deleted = append(deleted, known.Name)
		case known.supersedes(found[n]):
			known.keep(found[n].ResourceVersion, now)
		default:
			*known = found[n]
		}
	}
	for _, s := range found {
		if k.find(s.Name) < 0 {
			k.put(s)
		}
	}
	return deleted
}

// supersedes reports that an object of the API is from before the known set, and that nobody has changed it since.
func (s Set) supersedes(object Set) bool {
	if s.kept() && s.ResourceVersion != "" {
		return s.ResourceVersion == object.ResourceVersion
	}
	if s.UID == object.UID {
		return object.Generation < s.Generation
	}
	return object.Created.Before(s.Created)
}

// put takes a set that was added or changed.
func (k *Known) put(s Set) {
	if i := k.find(s.Name); i >= 0 {
		k.Sets[i] = s
		return
	}
	k.Sets = append(k.Sets, s)
	slices.SortFunc(k.Sets, func(a, b Set) int { return cmp.Compare(a.Name, b.Name) })
}

// remove takes the deletion of a set.
func (k *Known) remove(name string) {
	k.Sets = slices.DeleteFunc(k.Sets, func(s Set) bool { return s.Name == name })
}

// register takes the roles of the node, and reports whether they have changed.
func (k *Known) register(roles []string) (changed bool) {
	changed = !k.Registered || !slices.Equal(k.Roles, roles)
	k.Registered, k.Roles = true, roles
	return changed
}

// synced notes when the sets and the roles were known first, and reports whether that is now.
func (k *Known) synced(now time.Time) bool {
	if !k.FirstSync.IsZero() || !k.Listed() || !k.Registered {
		return false
	}
	k.FirstSync = now.UTC()
	return true
}

// less compares resource versions, which are numbers that grow: KEP-5504, and etcd's revisions before.
func less(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// Kept returns the names of the sets that the API has lost, or has in an older generation.
func (k *Known) Kept() (names []string) {
	for _, s := range k.Sets {
		if s.kept() {
			names = append(names, s.Name)
		}
	}
	return names
}

// Decode returns the sets with the images that they name. A set with a name that is no image's is a pinset.FileError.
func (k *Known) Decode() (sets []pinset.Set, errs []error) {
	for _, s := range k.Sets {
		set, err := s.decode()
		if err != nil {
			errs = append(errs, &pinset.FileError{File: s.Name, Revision: strconv.FormatInt(s.Generation, 10), Err: err})
			continue
		}
		sets = append(sets, set)
	}
	return sets, errs
}
