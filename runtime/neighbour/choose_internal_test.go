package neighbour

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// The best neighbour sends nothing to others yet, and has the most.
func TestCandidates(t *testing.T) {
	views := []view{
		{address: "behind", rank: 1, bytes: 10},
		{address: "earlier", rank: 2, bytes: 50},
		{address: "later", rank: 9, bytes: 50},
		{address: "ahead", rank: 9, bytes: 60, uploads: 1},
		{address: "complete", rank: 9, bytes: 100, complete: true, uploads: 4},
		{address: "free", rank: 9, bytes: 55},
	}
	far := append(slices.Clone(views), view{address: "far", rank: 9, bytes: 60 + farAhead, uploads: 1})
	for name, c := range map[string]struct {
		me    self
		views []view
		want  []string
	}{
		"a node in the middle": {self{rank: 5, bytes: 50}, views, []string{"free", "earlier", "ahead", "complete"}},
		"one that begins":      {self{rank: 5}, views, []string{"free", "later", "earlier", "behind", "ahead", "complete"}},
		"it stays where it is": {
			self{rank: 5, bytes: 50, parent: "ahead"}, views, []string{"ahead", "free", "earlier", "complete"},
		},
		"not if another is far ahead": {
			self{rank: 5, bytes: 50, parent: "ahead"}, far, []string{"free", "earlier", "far", "ahead", "complete"},
		},
		"a careful one": {
			self{rank: 5, careful: true}, append([]view{{address: "reads", bytes: 1, source: Reads}}, views...),
			[]string{"reads", "complete"},
		},
		"nobody": {self{rank: 5}, nil, nil},
	} {
		var got []string
		for _, v := range candidates(c.me, c.views) {
			got = append(got, v.address)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// One node asks the source: the one with the most bytes, of several the first in the order.
func TestMayAsk(t *testing.T) {
	me := self{rank: 5, bytes: 50}
	for name, c := range map[string]struct {
		other view
		want  bool
	}{
		"a later one":                      {view{rank: 9, bytes: 50}, true},
		"an earlier one":                   {view{rank: 1, bytes: 50}, false},
		"an earlier one with less":         {view{rank: 1, bytes: 49}, true},
		"one with more":                    {view{rank: 9, bytes: 51}, false},
		"a later one that intends to":      {view{rank: 9, bytes: 50, source: Intends}, true},
		"a later one that reads already":   {view{rank: 9, bytes: 50, source: Reads}, false},
		"one that reads, and is a bit off": {view{rank: 9, bytes: 49, source: Reads}, false},
		"a busy one with all":              {view{rank: 9, complete: true, uploads: 4}, false},
	} {
		if got := mayAsk(me, []view{c.other}); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if !mayAsk(self{rank: 5, bytes: 2 * farAhead}, []view{{rank: 9, source: Reads}}) {
		t.Error("a node far behind reads from the source: got that this one may not, want that it may")
	}
}

// Of nodes that decide by what they see at the same time, no two wait for each other, and one asks the source at most.
func TestNodesDoNotWaitInACircle(t *testing.T) {
	for seed := range 200 {
		all := make([]view, 12)
		for i := range all {
			all[i] = view{
				address: fmt.Sprint(i), rank: rankOf(fmt.Sprint(seed, i), ""), bytes: int64(seed * (i + 1) % 5),
				uploads: seed * i % 3,
			}
		}
		asking := 0
		for i, v := range all {
			others := slices.Delete(slices.Clone(all), i, i+1)
			me := self{rank: v.rank, bytes: v.bytes}
			if mayAsk(me, others) {
				asking++
			}
			for _, c := range candidates(me, others) {
				before := func(a, b view) bool { return a.bytes > b.bytes || a.bytes == b.bytes && a.rank < b.rank }
				if !before(c, v) {
					t.Errorf("seed %d: got that %+v waits for %+v, want only those before it", seed, v, c)
				}
			}
			if len(candidates(me, others)) == 0 != mayAsk(me, others) {
				t.Errorf("seed %d: got a node that has nobody to read from and may not ask, or the reverse: %+v", seed, v)
			}
		}
		if asking != 1 {
			t.Errorf("seed %d: got %d nodes that ask the source, want 1", seed, asking)
		}
	}
}

// A node that offers nothing is the last one.
func TestRank(t *testing.T) {
	if got := New("sha256:1", 1, Options{}).me.rank; got != math.MaxUint64 {
		t.Errorf("got %d, want the last", got)
	}
	a := New("sha256:1", 1, Options{Self: []string{"10.0.0.1:9751"}}).me.rank
	if b := New("sha256:2", 1, Options{Self: []string{"10.0.0.1:9751"}}).me.rank; a == b {
		t.Errorf("got %d for two files, want another order for each", a)
	}
}
