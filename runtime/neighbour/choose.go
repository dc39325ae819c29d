package neighbour

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/opencontainers/go-digest"
)

// view is what a neighbour says about a file. Nothing of it is known to be true.
type view struct {
	address  string
	rank     uint64
	bytes    int64 // at the beginning of the file
	complete bool
	source   Source
	uploads  int
}

// rankOf orders the nodes that fetch a file, for each file in another way: the first one asks the source.
func rankOf(address string, id digest.Digest) uint64 {
	sum := sha256.Sum256([]byte(id.String() + " " + address))
	return binary.BigEndian.Uint64(sum[:])
}

// lastRank is that of a node that offers nothing: what it fetches helps nobody.
const lastRank = math.MaxUint64

// self is the node that decides. It has the first bytes of the file.
type self struct {
	rank  uint64
	bytes int64
	// parent is the neighbour that it has read from; "" for none.
	parent string
	// careful means that only neighbours are read from that say they have the whole file, whose digest they have compared
	// then, or that they read from the source. Others pass on what they got before they can know whether it is right.
	careful bool
}

// farAhead is how many more bytes than the parent another neighbour must have to replace it: a node that changes
// without need takes the upload from another one.
const farAhead = 8 << 20

// candidates are the neighbours to read from, the best first. They have more than this node; or as much, and come
// earlier in the order, so that nodes that begin together form a chain, in which each sends the file once. No two nodes
// wait for each other by this rule.
func candidates(me self, views []view) []view {
	var all []view
	var most int64
	for _, v := range views {
		ahead := v.bytes > me.bytes
		if me.careful {
			ahead = v.complete || v.source == Reads && v.bytes > me.bytes
		} else if v.bytes == me.bytes && v.rank < me.rank {
			ahead = true
		}
		if !ahead {
			continue
		}
		most = max(most, v.bytes)
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b view) int {
		return cmp.Or(
			cmp.Compare(a.uploads, b.uploads), cmp.Compare(b.bytes, a.bytes), cmp.Compare(b.rank, a.rank),
			cmp.Compare(a.address, b.address))
	})
	i := slices.IndexFunc(all, func(v view) bool { return v.address == me.parent })
	if i > 0 && most < all[i].bytes+farAhead {
		parent := all[i]
		all = slices.Insert(slices.Delete(all, i, i+1), 0, parent)
	}
	return all
}

// mayAsk reports whether this node is the one that asks the source: nobody else does who will soon have more, and
// nobody has more, or as much and comes earlier in the order.
func mayAsk(me self, views []view) bool {
	return !slices.ContainsFunc(views, func(v view) bool {
		return v.complete || v.source == Reads && v.bytes+farAhead >= me.bytes ||
			v.bytes > me.bytes || v.bytes == me.bytes && v.rank < me.rank
	})
}

// position is how many of those that fetch the file come earlier in the order.
func position(me self, views []view) (n int) {
	for _, v := range views {
		if !v.complete && v.rank < me.rank {
			n++
		}
	}
	return n
}
