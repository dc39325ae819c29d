package zstd

import "encoding/binary"

// match is what is equal to earlier bytes, so far back.
type match struct{ length, offset uint32 }

// tree finds matches. It is a binary search tree of positions for each hash of 4 bytes, sorted by what follows them,
// with the last position as the root; and the last position for each hash of 3 bytes.
type tree struct {
	roots, threes []int32 // positions and 1
	children      []int32 // positions and 1: those that sort before a position, and those behind it
}

const (
	rootBits, threeBits = 16, 16
	// nice is how much of two positions is compared, in bytes: beyond that, the later one replaces the earlier one.
	nice = 128
	// depth is how many positions are compared with one. Three times as many make blocks smaller by less than 0.1 %.
	depth = 32
	// most is how many matches of a position are kept.
	most = 16
)

func (t *tree) begin(content []byte) {
	if t.roots == nil {
		t.roots, t.threes = make([]int32, 1<<rootBits), make([]int32, 1<<threeBits)
	}
	clear(t.roots)
	clear(t.threes)
	if len(t.children) < 2*len(content) {
		t.children = make([]int32, 2*len(content))
	}
}

// insert inserts a position, and appends the matches there: each is longer than the one before, and farther back.
func (t *tree) insert(content []byte, at int, found []match) []match {
	end := min(at+nice, len(content))
	if at+4 > end {
		return found
	}
	word := binary.LittleEndian.Uint32(content[at:])
	start := len(found)
	add := func(n, back int) {
		if len(found) == start+most {
			found = found[:start+most-1]
		}
		found = append(found, match{uint32(n), uint32(back)})
	}
	three, root := &t.threes[word<<8*506832829>>(32-threeBits)], &t.roots[word*2654435761>>(32-rootBits)]
	best, candidate := minMatch-1, int(*three)-1
	if candidate >= 0 {
		if n := matching(content, candidate, at, end); n > best {
			add(n, at-candidate)
			best = n
		}
	}
	candidate = int(*root) - 1
	*three, *root = int32(at+1), int32(at+1)
	before, behind := &t.children[2*at], &t.children[2*at+1]
	equalBefore, equalBehind := 0, 0
	for range depth {
		if candidate < 0 {
			break
		}
		n := min(equalBefore, equalBehind)
		n += matching(content, candidate+n, at+n, end)
		if n > best {
			add(n, at-candidate)
			best = n
		}
		pair := t.children[2*candidate : 2*candidate+2]
		if at+n == end {
			*before, *behind = pair[0], pair[1]
			return found
		}
		if content[candidate+n] < content[at+n] {
			*before, before, equalBefore = int32(candidate+1), &pair[1], n
			candidate = int(pair[1]) - 1
		} else {
			*behind, behind, equalBehind = int32(candidate+1), &pair[0], n
			candidate = int(pair[0]) - 1
		}
	}
	*before, *behind = 0, 0
	return found
}
