package sites

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrUnserved is a site that no delta serves.
var ErrUnserved = fault.New(fault.Other, "no delta serves some sites",
	"the others have their deltas; serve those that are named by a full build, or let them report again")

// ErrNotServed is a delta that needs a layer which a site does not have.
var ErrNotServed = fault.New(fault.Other, "the delta needs a layer that the site does not have",
	"report this as an error in pinbox; a full build works on every node")

// Site is a node, with what its mounted stores have.
type Site struct {
	Name   string
	Stores []pinset.StoreContent
	// Wanted are the names of images that pods wanted there, and that the site did not have.
	Wanted []string
}

// Plan says which deltas to make, and what is with each site.
type Plan struct {
	Deltas []Delta
	// Done are the names of sites that have the release.
	Done []string
	// Unserved are sites that no delta can serve.
	Unserved []Unserved
}

// Delta is for sites, by their names. It has the layers that one of them lacks, and needs those that all have.
type Delta struct {
	Sites []Site
	// Bases are what the sites have, each once.
	Bases []base.Base
	// Bytes of the blobs that it has.
	Bytes int64
}

// Unserved is a site that no delta serves, and why.
type Unserved struct {
	Site   string `json:"site"`
	Reason string `json:"reason"`
}

// New plans the deltas of a release for sites, of which each has another name. Sites that lack the same share one, and
// so does a site with more layers than others. If these are more than max, those two whose common delta costs the
// fewest bytes more over all sites become one, until there are max; 0 means any number.
func New(lock pinset.Lock, all []Site, max int) (p Plan) {
	all = slices.Clone(all)
	slices.SortFunc(all, compareSites)
	c := newCover(lock)
	for _, s := range all {
		switch done, reason := judge(lock, s); {
		case reason != "":
			p.Unserved = append(p.Unserved, Unserved{s.Name, reason})
		case done:
			p.Done = append(p.Done, s.Name)
		default:
			c.add(s, base.OfNode(s.Stores, lock.Images))
		}
	}
	for _, g := range c.solve(max) {
		p.Deltas = append(p.Deltas, Delta{Sites: g.sites, Bases: g.bases, Bytes: c.lacked(g.has)})
	}
	return p
}

// judge says that a site has the release, or why no delta can serve it.
func judge(lock pinset.Lock, s Site) (done bool, reason string) {
	now := pinset.CurrentContent(s.Stores)
	if now == nil {
		return false, "its report lists no stores"
	}
	if now.Platform != lock.Platform {
		return false, fmt.Sprintf("its stores are for %s, and the release is for %s", now.Platform, lock.Platform)
	}
	if now.Wish == lock.Wish() && (lock.Number == 0 || now.Number >= lock.Number) {
		return true, ""
	}
	if err := lock.ReleaseID.IsOf(now.ReleaseID); err != nil {
		return false, err.Error()
	}
	if err := lock.ReleaseID.Follows(now.ReleaseID); err != nil {
		return false, err.Error()
	}
	return false, ""
}

// Lacking says in one line for each image which ones sites wanted and the release does not have, and which sites.
func Lacking(lock pinset.Lock, all []Site) (lines []string) {
	has := map[string]bool{}
	for _, img := range lock.Images {
		for _, name := range append([]string{img.Pin}, img.Tags...) {
			has[name] = true
		}
	}
	for _, a := range lock.Artifacts {
		for _, name := range a.Names() {
			has[name] = true
		}
	}
	wantedBy := map[string][]string{}
	for _, s := range all {
		for _, name := range s.Wanted {
			if !has[name] {
				wantedBy[name] = append(wantedBy[name], s.Name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wantedBy)) {
		slices.Sort(wantedBy[name])
		lines = append(lines, fmt.Sprintf("%s was wanted on %s and is not in the release: --wanted with the reports adds it",
			name, strings.Join(wantedBy[name], ", ")))
	}
	return lines
}

// same reports whether bases say the same, of sites that are alike.
func same(a, b base.Base) bool {
	program := func(b base.Base) (p pinset.Program) {
		if b.Locked.Program != nil {
			p = *b.Locked.Program
		}
		return p
	}
	pins := func(b base.Base) (all []string) {
		for _, a := range b.Locked.Artifacts {
			all = append(all, a.Pin)
		}
		return all
	}
	if len(a.Held) != len(b.Held) || a.Base != b.Base || program(a) != program(b) || !slices.Equal(pins(a), pins(b)) {
		return false
	}
	for id, l := range a.Held {
		if other, ok := b.Held[id]; !ok || other != l {
			return false
		}
	}
	return true
}

// Check returns ErrNotServed, with a layer and a site, unless each site has all layers that a delta needs.
func (d Delta) Check(made pinset.Delta) error {
	for _, s := range d.Sites {
		has := map[string]bool{}
		for _, store := range s.Stores {
			for _, l := range store.Layers {
				has[l.ID] = true
			}
		}
		for _, id := range made.Requires() {
			if !has[id] {
				return fmt.Errorf("%s: %w: %s", s.Name, ErrNotServed, id)
			}
		}
	}
	return nil
}
