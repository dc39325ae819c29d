package sites

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/storage/pinset"
)

// cover finds the deltas of a release. What a site may have of it are its layers and its OCI artifacts.
type cover struct {
	// parts are their places, by their IDs and pins, and bytes the sizes of their blobs.
	parts  map[string]int
	bytes  []int64
	groups []*group
}

// group is the sites of a delta, and the parts that all of them have.
type group struct {
	sites []Site
	bases []base.Base
	has   set
}

// set is a set of parts.
type set []uint64

func (s set) add(n int) { s[n/64] |= 1 << (n % 64) }

// within reports whether another set has all parts of this one.
func (s set) within(other set) bool {
	for i := range s {
		if s[i]&^other[i] != 0 {
			return false
		}
	}
	return true
}

// and returns the parts of both.
func (s set) and(other set) set {
	both := slices.Clone(s)
	for i := range both {
		both[i] &= other[i]
	}
	return both
}

func newCover(lock pinset.Lock) *cover {
	c := &cover{parts: map[string]int{}}
	add := func(id string, size int64) {
		if _, known := c.parts[id]; !known {
			c.parts[id] = len(c.bytes)
			c.bytes = append(c.bytes, size)
		}
	}
	for _, img := range lock.Images {
		for _, l := range base.Chain(img) {
			add(l.ID, l.Size)
		}
	}
	for _, a := range lock.Artifacts {
		size := int64(0)
		for _, b := range a.Blobs {
			size += b.Size
		}
		add(a.Pin, size)
	}
	return c
}

// add adds a site, to the group with the same parts if there is one.
func (c *cover) add(s Site, b base.Base) {
	has := make(set, (len(c.bytes)+63)/64)
	for id := range b.Held {
		has.add(c.parts[id])
	}
	for _, a := range b.Locked.Artifacts {
		if n, known := c.parts[a.Pin]; known {
			has.add(n)
		}
	}
	c.of(has).take(&group{sites: []Site{s}, bases: []base.Base{b}})
}

// of returns the group whose sites all have these parts; a new one if there is none.
func (c *cover) of(has set) *group {
	for _, g := range c.groups {
		if slices.Equal(g.has, has) {
			return g
		}
	}
	g := &group{has: has}
	c.groups = append(c.groups, g)
	return g
}

// lacked is the size in bytes of the parts that are not in a set.
func (c *cover) lacked(has set) (sum int64) {
	for i := range has {
		for word := ^has[i]; word != 0; word &= word - 1 {
			if n := i*64 + bits.TrailingZeros64(word); n < len(c.bytes) {
				sum += c.bytes[n]
			}
		}
	}
	return sum
}

// solve joins groups: those whose sites another delta serves, and then the cheapest pairs until there are at most max.
// Of a site's layers, each pair leaves what both have, so the order of the pairs matters, and another one may be
// better.
func (c *cover) solve(max int) []*group {
	c.share()
	costs := map[[2]*group]int64{}
	for max > 0 && len(c.groups) > max {
		best, cheapest := [2]*group{}, int64(math.MaxInt64)
		for i, a := range c.groups {
			for _, b := range c.groups[:i] {
				pair := [2]*group{b, a}
				cost, known := costs[pair]
				if !known {
					cost = c.cost(a, b)
					costs[pair] = cost
				}
				if cost < cheapest {
					best, cheapest = pair, cost
				}
			}
		}
		c.groups = slices.DeleteFunc(c.groups, func(g *group) bool { return g == best[0] || g == best[1] })
		joined := c.of(best[0].has.and(best[1].has))
		joined.take(best[0])
		joined.take(best[1])
	}
	slices.SortFunc(c.groups, func(a, b *group) int { return compareSites(a.sites[0], b.sites[0]) })
	return c.groups
}

// cost is how many bytes more the sites of two groups need if they share a delta.
func (c *cover) cost(a, b *group) int64 {
	one, other := int64(len(a.sites)), int64(len(b.sites))
	return (one+other)*c.lacked(a.has.and(b.has)) - one*c.lacked(a.has) - other*c.lacked(b.has)
}

// share lets groups with more than another one join it: of several, the one whose delta is the smallest.
func (c *cover) share() {
	var least []*group // none of which has all that another one has
	for _, g := range c.groups {
		if !slices.ContainsFunc(c.groups, func(o *group) bool { return o != g && o.has.within(g.has) }) {
			least = append(least, g)
		}
	}
	for _, g := range c.groups {
		if slices.Contains(least, g) {
			continue
		}
		var best *group
		for _, o := range least {
			if o.has.within(g.has) && (best == nil || c.lacked(o.has) < c.lacked(best.has)) {
				best = o
			}
		}
		best.take(g)
	}
	c.groups = least
}

func compareSites(a, b Site) int { return strings.Compare(a.Name, b.Name) }

// take adds the sites of another group, in the order of their names, and their bases, each once.
func (g *group) take(other *group) {
	g.sites = append(g.sites, other.sites...)
	slices.SortFunc(g.sites, compareSites)
	for _, b := range other.bases {
		if !slices.ContainsFunc(g.bases, func(known base.Base) bool { return same(known, b) }) {
			g.bases = append(g.bases, b)
		}
	}
}
