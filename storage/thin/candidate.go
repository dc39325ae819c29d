package thin

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// key identifies a content as far as the tar-split file of a layer does. That two contents with one key
// are equal is checked at the end: the DiffIDs of the layers decide.
type key struct {
	size int64
	sum  uint64
}

// made is a content that is in a solid stream: its number, its kind, and the number of its last block.
type made struct {
	number int64
	kind   int
	job    int
}

// candidate is a content of a base that equals a new one, or may be its model.
type candidate struct {
	source
	name string
	size int64
}

// maxCandidates is how many contents of the bases are considered for one content.
const maxCandidates = 64

// candidates are the contents of the bases that new contents may be made of.
type candidates struct {
	equals map[key][]candidate
	models map[string][]candidate // by the pattern of their paths
	made   map[key]made
}

// newCandidates returns an empty set for the contents of layers.
func newCandidates(layers []newLayer) *candidates {
	c := &candidates{equals: map[key][]candidate{}, models: map[string][]candidate{}, made: map[key]made{}}
	for _, l := range layers {
		for _, r := range l.records {
			c.equals[key{r.size, r.sum}] = nil
			c.models[pattern(r.name)] = nil
		}
	}
	return c
}

// add adds a content of a base, if it may be of use.
func (c *candidates) add(of source, r record) {
	one := candidate{of, clean(r.name), r.size}
	if list, ok := c.equals[key{r.size, r.sum}]; ok && len(list) < maxCandidates {
		c.equals[key{r.size, r.sum}] = append(list, one)
	}
	p := pattern(r.name)
	if list, ok := c.models[p]; ok && len(list) < maxCandidates {
		c.models[p] = append(list, one)
	}
}

func clean(name string) string { return path.Clean("/" + name) }

// pattern is the path of a file without numbers, which change with versions:
// usr/lib/libssl.so.3.0.15 and usr/lib/libssl.so.3.0.14 have the same one.
func pattern(name string) string {
	var b strings.Builder
	digit := false
	for _, c := range []byte(clean(name)) {
		was := digit
		if digit = c >= '0' && c <= '9'; !digit {
			b.WriteByte(c)
		} else if !was {
			b.WriteByte('0')
		}
	}
	return b.String()
}

// rank returns the numbers of the sources with files of a layer, those with the most files under the same
// paths first.
func (c *candidates) rank(records []record) []int {
	votes := map[int]int{}
	for _, r := range records {
		name := clean(r.name)
		for _, one := range c.models[pattern(r.name)] {
			if one.name == name {
				votes[one.layer]++
			}
		}
	}
	var ranked []int
	for n := range votes {
		ranked = append(ranked, n)
	}
	slices.SortFunc(ranked, func(a, b int) int { return cmp.Or(votes[b]-votes[a], a-b) })
	return ranked
}

// equal returns a content of a base that equals a new one. It is the one after last, if that is one of
// them, since sources that follow each other take less space; or the one in the place of the new one.
func (c *candidates) equal(r record, rank []int, last source) (source, bool) {
	list := c.equals[key{r.size, r.sum}]
	if len(list) == 0 {
		return source{}, false
	}
	for _, one := range list {
		if one.source == (source{last.layer, last.file + 1}) {
			return one.source, true
		}
	}
	return nearest(list, r, rank).source, true
}

// model returns a content of a base that is probably similar to a new one: that of the same path, or
// that of another version.
func (c *candidates) model(r record, rank []int) (model, bool) {
	list := c.models[pattern(r.name)]
	if len(list) == 0 {
		return model{}, false
	}
	best := nearest(list, r, rank)
	return model{best.source, best.size}, true
}

// nearest returns the candidate with the path of a file, in the layer of the lowest rank; among those with
// other paths, the one with the nearest size.
func nearest(list []candidate, r record, rank []int) candidate {
	name := clean(r.name)
	order := func(a candidate) [3]int64 {
		o := [3]int64{0, int64(slices.Index(rank, a.layer)), max(a.size-r.size, r.size-a.size)}
		if a.name != name {
			o[0] = 1
		}
		if o[1] < 0 {
			o[1] = int64(len(rank))
		}
		return o
	}
	return slices.MinFunc(list, func(a, b candidate) int {
		x, y := order(a), order(b)
		return slices.Compare(x[:], y[:])
	})
}
