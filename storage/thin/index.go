package thin

import (
	"slices"
	"sort"

	"github.com/opencontainers/go-digest"
)

// Version is the version of the format.
const Version = 1

// The kinds of contents. Those of each kind but same follow each other in one solid stream, which is cut
// into blocks.
const (
	skeletons = iota // all bytes of the tar streams that are in no file
	patched          // contents for which the bases have a model
	literal          // other contents
	streams
	same = streams // contents that a base has
)

// index is the decoded index of a thin delta.
type index struct {
	layers []string // IDs of the base layers that are read
	// packed says of each whether the store that comes out has the data blocks of its files as the bases have them.
	packed []bool
	solid  [streams]solid
	spans  []span // dictionaries of the blocks
	runs   []run
	// contents is how many contents the runs have.
	contents int64
	recipes  []recipe
	largest  []Largest
}

// solid is a stream of contents of one kind.
type solid struct {
	ends   []int64 // of the contents in the stream
	blocks []block
}

// block is a part of a solid stream: a zstd frame.
type block struct {
	start  int64 // in the stream
	size   int
	at     int64 // in the data
	packed int
	// The dictionary is spans[first:first+spans].
	first, spans int
}

// span is a part of a base content.
type span struct {
	source
	start int64
	size  int
}

// run is a number of contents of one kind that follow each other.
type run struct {
	first int64 // number of the content
	kind  int
	// of is the source of the first one; those of the others follow it. It is only for the kind same.
	of source
	// row is the number of the first one in the solid stream of the kind.
	row int
}

// recipe is how a tar stream is put together: for each content, some bytes of the skeleton and then the
// content.
type recipe struct {
	diffID   digest.Digest
	size     int64
	counts   [streams + 1]Count
	contents int64 // how many
	first    int64 // number of the first content that is new in this recipe
	row      int   // of the skeleton
	// gaps are the numbers of bytes of the skeleton, refs those of the contents. Both are columns.
	gaps, refs column
}

// content returns the kind of a content, and its source or its row.
func (x *index) content(number int64) (kind int, of source, row int) {
	n, found := slices.BinarySearchFunc(x.runs, number, func(r run, number int64) int {
		switch {
		case r.first < number:
			return -1
		case r.first > number:
			return 1
		}
		return 0
	})
	if !found {
		n--
	}
	r := x.runs[n]
	after := int(number - r.first)
	return r.kind, source{r.of.layer, r.of.file + after}, r.row + after
}

// length returns the number of contents of a run.
func (x *index) length(n int) int64 {
	if n+1 < len(x.runs) {
		return x.runs[n+1].first - x.runs[n].first
	}
	return x.contents - x.runs[n].first
}

// extent returns where a content is in its solid stream.
func (s *solid) extent(row int) (start, end int64) {
	if row > 0 {
		start = s.ends[row-1]
	}
	return start, s.ends[row]
}

// size returns the size of the stream in bytes.
func (s *solid) size() int64 {
	if len(s.ends) == 0 {
		return 0
	}
	return s.ends[len(s.ends)-1]
}

// find returns the number of the block with an offset of the stream.
func (s *solid) find(at int64) int {
	return sort.Search(len(s.blocks), func(n int) bool { return s.blocks[n].start > at }) - 1
}

// Layer is a layer of a thin delta.
type Layer struct {
	// DiffID and size in bytes of its tar stream.
	DiffID digest.Digest
	Size   int64
	// Skeleton are the bytes of the tar stream that are in no file. Same are the files that a base has,
	// Patched those that are made of similar ones, Literal the others.
	Skeleton, Same, Patched, Literal Count
}

// Count sums up files of a layer.
type Count struct {
	Files int64
	// Size in bytes of the files.
	Size int64
	// Packed is what they take in the thin delta in bytes. It is an estimate, since files are compressed
	// together.
	Packed int64
}

// Largest is a file of a layer that takes many bytes of a thin delta, and its path in the layer.
type Largest struct {
	DiffID       digest.Digest
	Path         string
	Size, Packed int64
}
