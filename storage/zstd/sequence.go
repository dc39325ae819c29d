package zstd

import "math/bits"

// sequence is some literals, and a match after them. Format: RFC 8878, 3.1.1.3.2.
type sequence struct {
	literals uint32
	length   uint32 // of the match, at least minMatch
	offset   uint32 // 1 to 3 for one of the last three offsets, or else 3 more than the offset
}

const minMatch = 3

// kind is one of the three parts of a sequence, which are encoded by tables of their own.
type kind struct {
	all        int    // its codes
	log, usual int    // of the largest table, and of the predefined one
	defaults   counts // states of the predefined table
}

// The kinds, and their predefined tables: RFC 8878, 3.1.1.3.2.2.
var (
	literalKind = kind{all: 36, log: 9, usual: 6, defaults: counts{
		4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1,
		2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1,
		-1, -1, -1, -1,
	}}
	offsetKind = kind{all: 32, log: 8, usual: 5, defaults: counts{
		1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1,
		1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1,
	}}
	lengthKind = kind{all: 53, log: 9, usual: 6, defaults: counts{
		1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1,
		1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
		1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1,
		-1, -1, -1, -1, -1,
	}}
)

// weights are the predefined table as numbers of codes.
func (k *kind) weights() *counts {
	const each = 32
	w := k.defaults
	for i, n := range w {
		w[i] = each * max(n, -n)
	}
	return &w
}

// Codes of small numbers of literals and lengths, and how many extra bits codes have: RFC 8878, 3.1.1.3.2.1.1.
var (
	literalCodes = [64]uint8{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
		16, 16, 17, 17, 18, 18, 19, 19, 20, 20, 20, 20, 21, 21, 21, 21,
		22, 22, 22, 22, 22, 22, 22, 22, 23, 23, 23, 23, 23, 23, 23, 23,
		24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24,
	}
	literalExtra = [36]uint8{
		16: 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	}
	lengthCodes = [128]uint8{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
		16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
		32, 32, 33, 33, 34, 34, 35, 35, 36, 36, 36, 36, 37, 37, 37, 37,
		38, 38, 38, 38, 38, 38, 38, 38, 39, 39, 39, 39, 39, 39, 39, 39,
		40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40,
		41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41,
		42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42,
		42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42,
	}
	lengthExtra = [53]uint8{
		32: 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	}
)

func literalCode(n uint32) uint8 {
	if n < uint32(len(literalCodes)) {
		return literalCodes[n]
	}
	return uint8(bits.Len32(n)) + 18
}

// lengthCode returns the code of the length of a match, less minMatch.
func lengthCode(n uint32) uint8 {
	if n < uint32(len(lengthCodes)) {
		return lengthCodes[n]
	}
	return uint8(bits.Len32(n)) + 35
}

func offsetCode(offset uint32) uint8 { return uint8(bits.Len32(offset)) - 1 }

// coder encodes the codes of a kind.
type coder struct {
	kind
	codes         []uint8 // of each sequence
	occur, states counts
	own, preset   table
	table         *table
}

func newCoder(k kind) *coder {
	c := &coder{kind: k}
	c.preset.build(&c.defaults, c.all, uint(c.usual))
	return c
}

// Modes of a table: RFC 8878, 3.1.1.3.2.1.
const (
	predefined = 0
	single     = 1
	described  = 2
)

// choose takes the table with which the codes take the least bits, appends its description, and returns its mode.
func (c *coder) choose(out []byte) (mode byte, _ []byte) {
	clear(c.occur[:])
	for _, code := range c.codes {
		c.occur[code]++
	}
	total, used, last := int32(len(c.codes)), 0, 0
	for i, n := range c.occur {
		if n > 0 {
			used, last = used+1, i
		}
	}
	usual := cost(&c.occur, &c.defaults, last+1, uint(c.usual))
	if used == 1 && total > 2 {
		c.own.one(uint8(last))
		c.table = &c.own
		return single, append(out, byte(last))
	}
	if used > 1 {
		log := tableLog(last+1, total, c.log)
		c.states = normalize(&c.occur, last+1, total, log)
		longer := appendStates(out, &c.states, log)
		const bits256 = 8 << 8 // of a byte
		if cost(&c.occur, &c.states, last+1, log)+uint32(len(longer)-len(out))*bits256 < usual {
			c.own.build(&c.states, last+1, log)
			c.table = &c.own
			return described, longer
		}
	}
	c.table = &c.preset
	return predefined, out
}
