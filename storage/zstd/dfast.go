package zstd

import (
	"encoding/binary"
	"math/bits"
)

// dfast takes the first match that it finds with two tables of positions, by 8 and by 5 bytes, as libzstd does at
// level 3. The tables are as small as a content permits, so that a core has them in its cache, beside the content.
type dfast struct{ long, short positions }

const (
	maxLongBits, maxShortBits = 16, 15
	minLongBits, minShortBits = 10, 9
	// patience is how many bytes without a match make the next step longer by one: the binary logarithm.
	patience = 8
	// margin is how many bytes of a block are read where a match is searched for: a word there, and one at the next byte.
	margin = 9
)

// begin empties the tables, and fits them to the size of a content.
func (d *dfast) begin(content []byte) {
	n := bits.Len(uint(max(len(content), 1) - 1))
	d.long.begin(min(max(n, minLongBits), maxLongBits))
	d.short.begin(min(max(n-1, minShortBits), maxShortBits))
}

// block sets p to the sequences and literals of content[from:to].
func (d *dfast) block(content []byte, from, to int, p *parsed) {
	b := content[:to]
	anchor := from // where the literals begin
	for at := max(from, 1); ; at = anchor {
		m := d.next(b, anchor, at, int(p.last[0]))
		if m.length == 0 {
			break
		}
		if m.back > 0 {
			for m.start > anchor && m.start > m.back && b[m.start-1] == b[m.start-1-m.back] {
				m.start, m.length = m.start-1, m.length+1
			}
			p.last = [3]uint32{uint32(m.back), p.last[0], p.last[1]}
			p.add(b[anchor:m.start], uint32(m.back)+3, m.length)
		} else {
			p.add(b[anchor:m.start], 1, m.length)
		}
		if anchor = m.start + m.length; anchor <= to-margin {
			d.put(load64(b, m.at+2), m.at+2)
			d.long.put(hashLong(load64(b, anchor-2)), anchor-2)
			d.short.put(hashShort(load64(b, anchor-1)), anchor-1)
			anchor = d.again(b, anchor, p)
		}
	}
	p.literals = append(p.literals, b[anchor:]...)
}

// found is a match.
type found struct {
	at            int // where it was searched for
	start, length int // length is 0 if there is none
	back          int // the offset, or 0 for the last one
}

// next returns the first match from a position on.
func (d *dfast) next(b []byte, anchor, at, last int) found {
	long, short := d.long, d.short
	for ; at <= len(b)-margin; at += (at-anchor)>>patience + 1 {
		word := load64(b, at)
		far := long.replace(hashLong(word), at)
		near := short.replace(hashShort(word), at)
		switch {
		case last <= at && load32(b, at+1-last) == uint32(word>>8):
			return found{at: at, start: at + 1, length: 4 + matching(b, at+5-last, at+5, len(b))}
		case far < uint32(at) && load64(b, int(far)) == word:
			n := 8 + matching(b, int(far)+8, at+8, len(b))
			return found{at: at, start: at, length: n, back: at - int(far)}
		case near < uint32(at) && load32(b, int(near)) == uint32(word):
			n := 4 + matching(b, int(near)+4, at+4, len(b))
			return d.longer(b, found{at: at, start: at, length: n, back: at - int(near)})
		}
	}
	return found{}
}

// longer returns the match of 8 bytes or more at the next position if it is longer than m.
func (d *dfast) longer(b []byte, m found) found {
	at := m.at + 1
	word := load64(b, at)
	if far := d.long.replace(hashLong(word), at); far < uint32(at) && load64(b, int(far)) == word {
		if n := 8 + matching(b, int(far)+8, at+8, len(b)); n > m.length {
			return found{at: m.at, start: at, length: n, back: at - int(far)}
		}
	}
	return m
}

// again adds the matches that follow at once, with the last offset but one, and returns where they end.
func (d *dfast) again(b []byte, at int, p *parsed) int {
	for at <= len(b)-margin {
		word, back := load64(b, at), int(p.last[1])
		if back > at || load32(b, at-back) != uint32(word) {
			break
		}
		n := 4 + matching(b, at+4-back, at+4, len(b))
		p.last[0], p.last[1] = p.last[1], p.last[0]
		d.put(word, at)
		p.add(nil, 1, n) // without literals, 1 is the last offset but one
		at += n
	}
	return at
}

// put puts the position of a word in both tables.
func (d *dfast) put(word uint64, at int) {
	d.long.put(hashLong(word), at)
	d.short.put(hashShort(word), at)
}

// positions has the last position for each hash, of some bits. Above a position are more bits of its hash: if these
// differ, so do the bytes, which then need not be read. An unused place is like one of position 0.
type positions struct {
	places *[1 << maxLongBits]uint32
	shift  uint
}

// positionMask has the bits of a position. Those behind 1 MiB have more: fewer matches are found there.
const positionMask = 1<<20 - 1

func (p *positions) begin(n int) {
	if p.places == nil {
		p.places = new([1 << maxLongBits]uint32)
	}
	clear(p.places[:1<<n])
	p.shift = 64 - uint(n)
}

// replace puts a position, and returns a guess at an earlier one with the same bytes, which the caller compares. If it
// is not earlier, there is none.
func (p positions) replace(hash uint64, at int) uint32 {
	place := &p.places[hash>>(p.shift&63)&(1<<maxLongBits-1)]
	tag := uint32(hash>>16) &^ positionMask
	earlier := *place
	*place = tag | uint32(at)
	return earlier ^ tag
}

func (p positions) put(hash uint64, at int) {
	p.places[hash>>(p.shift&63)&(1<<maxLongBits-1)] = uint32(hash>>16)&^positionMask | uint32(at)
}

// hashLong and hashShort return hashes of 8 and of 5 bytes, in the upper bits: the factors are large primes.
func hashLong(word uint64) uint64  { return word * 0xcf1bbcdcb7a56463 }
func hashShort(word uint64) uint64 { return word << 24 * 889523592379 }

func load64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
func load32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
