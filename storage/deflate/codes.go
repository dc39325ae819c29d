package deflate

import "math/bits"

// An entry of a table says what the next bits of the input are. Its lowest 6 bits are how many bits it takes, with the
// extra bits of a length or distance. The next 4 are how many of those are its code.
//
//	literal: bit 31, and the byte from bit 16 on
//	length, distance: the base from bit 16 on
//	table: bit 14, another table from the position in bit 16 on; bits 6 to 9 are its number of bits
//	end of the block: bit 13
//	none: bit 14 and bit 13
type entry uint32

const (
	literal entry = 1 << 31
	table   entry = 1 << 14
	ending  entry = 1 << 13
	none          = table | ending

	special = table | ending
)

const (
	codeShift  = 6
	codeMask   = 15
	valueShift = 16
)

// Sizes of tables, in bits, and of the alphabets. Codes that are longer than the table are in further tables behind it.
const (
	symbolBits   = 11
	distanceBits = 8
	lengthBits   = 7 // of the codes of code lengths, which are no longer

	longestCode  = 15
	maxSymbols   = 286
	maxDistances = 30
	// Entries of a table and of all further ones, at most, for codes of 288 and of 32 symbols: the limits that
	// examples/enough.c of zlib computes.
	symbolEntries   = 2342
	distanceEntries = 402
)

// codes are the tables of a block.
type codes struct {
	symbols   [symbolEntries]entry
	distances [distanceEntries]entry
	lengths   [1 << lengthBits]entry
	isFixed   bool
	builder   builder
}

// fixed makes the tables of RFC 1951, 3.2.6.
func (c *codes) fixed() {
	if c.isFixed {
		return
	}
	var lengths [288 + 32]uint8
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		case i < 288:
			lengths[i] = 8
		default:
			lengths[i] = 5
		}
	}
	c.builder.build(c.symbols[:], symbolBits, lengths[:288], symbolEntry)
	c.builder.build(c.distances[:], distanceBits, lengths[288:], distanceEntry)
	c.isFixed = true
}

// order is that of the lengths of the codes of code lengths.
var order = [...]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// read makes the tables that the header of a block describes. Format: RFC 1951, 3.2.7.
func (c *codes) read(in *input) error {
	c.isFixed = false
	in.refill()
	symbols, distances, n := in.take(5)+257, in.take(5)+1, in.take(4)+4
	if symbols > maxSymbols || distances > maxDistances {
		return ErrCorrupt
	}
	var lengths [maxSymbols + maxDistances]uint8
	for _, i := range order[:n] {
		in.refill()
		lengths[i] = uint8(in.take(3))
	}
	if !c.builder.build(c.lengths[:], lengthBits, lengths[:len(order)], lengthEntry) {
		return ErrCorrupt
	}
	clear(lengths[:len(order)])
	all := lengths[:symbols+distances]
	if !c.readLengths(in, all) {
		return ErrCorrupt
	}
	if !c.builder.build(c.symbols[:], symbolBits, all[:symbols], symbolEntry) ||
		!c.builder.build(c.distances[:], distanceBits, all[symbols:], distanceEntry) {
		return ErrCorrupt
	}
	return nil
}

// readLengths reads the lengths of the codes of all symbols.
func (c *codes) readLengths(in *input, all []uint8) bool {
	for at := 0; at < len(all); {
		in.refill()
		e := c.lengths[in.bits&(1<<lengthBits-1)]
		if e&special != 0 {
			return false
		}
		in.take(uint(e & 63))
		n, value := 1, uint8(e>>valueShift)
		switch value {
		case 16:
			if at == 0 {
				return false
			}
			n, value = 3+int(in.take(2)), all[at-1]
		case 17:
			n, value = 3+int(in.take(3)), 0
		case 18:
			n, value = 11+int(in.take(7)), 0
		}
		if n > len(all)-at {
			return false
		}
		for range n {
			all[at] = value
			at++
		}
	}
	return true
}

// symbolEntry, distanceEntry and lengthEntry return the entry of a symbol, with the number of its extra bits. Values:
// RFC 1951, 3.2.5.
func symbolEntry(symbol int) entry {
	switch {
	case symbol < 256:
		return literal | entry(symbol)<<valueShift
	case symbol == 256:
		return ending
	case symbol < 265:
		return entry(symbol-257+3) << valueShift
	case symbol < 285:
		extra := (symbol - 261) / 4
		return entry(3+(4+(symbol-261)%4)<<extra)<<valueShift | entry(extra)
	case symbol == 285:
		return longest << valueShift
	default:
		return none
	}
}

func distanceEntry(symbol int) entry {
	switch {
	case symbol < 4:
		return entry(symbol+1) << valueShift
	case symbol < maxDistances:
		extra := (symbol - 2) / 2
		return entry(1+(2+symbol%2)<<extra)<<valueShift | entry(extra)
	default:
		return none
	}
}

func lengthEntry(symbol int) entry { return entry(symbol) << valueShift }

// builder makes tables.
type builder struct {
	counts [longestCode + 1]int
	sorted [288]uint16 // symbols by the length of their codes, and then by number
}

// build fills a table with the codes of the given lengths, and reports whether those are the lengths of a code: one in
// which no bits mean two symbols, or none, except that a single code may be of one bit, and that there may be no code.
func (b *builder) build(t []entry, width int, lengths []uint8, entryOf func(symbol int) entry) bool {
	used, complete := b.sort(lengths)
	if !complete && used > 0 && (used > 1 || b.counts[1] != 1) {
		return false
	}
	for i := range 1 << width {
		t[i] = none
	}
	next := 1 << width // where the next further table begins
	sub, subBits, subOf := 0, 0, -1
	code, i := 0, 0
	for n := 1; n <= longestCode; n, code = n+1, code<<1 {
		for left := b.counts[n]; left > 0; left-- {
			e := entryOf(int(b.sorted[i]))
			i++
			reversed := int(bits.Reverse16(uint16(code)) >> (16 - n))
			code++
			if n <= width {
				e += entry(n)<<codeShift + entry(n)
				for at := reversed; at < 1<<width; at += 1 << n {
					t[at] = e
				}
				continue
			}
			if low := reversed & (1<<width - 1); low != subOf {
				subOf, sub, subBits = low, next, b.further(n, left, width)
				next += 1 << subBits
				t[low] = table | entry(sub)<<valueShift | entry(subBits)<<codeShift | entry(width)
			}
			e += entry(n-width)<<codeShift + entry(n-width)
			for at := reversed >> width; at < 1<<subBits; at += 1 << (n - width) {
				t[sub+at] = e
			}
		}
	}
	return true
}

// further returns the number of bits of the further table that begins with a code of n bits, when so many codes of that
// length are left.
func (b *builder) further(n, left, width int) int {
	size := n - width
	for space := left; space < 1<<size && n < longestCode; {
		n, size = n+1, size+1
		space = space<<1 + b.counts[n]
	}
	return size
}

// sort sorts the symbols that have a code, returns their number, and whether the code is complete.
func (b *builder) sort(lengths []uint8) (used int, complete bool) {
	clear(b.counts[:])
	for _, n := range lengths {
		b.counts[n]++
	}
	b.counts[0] = 0
	var starts [longestCode + 1]int
	space := 1
	for n := 1; n <= longestCode; n++ {
		starts[n] = used
		used += b.counts[n]
		if space = space<<1 - b.counts[n]; space < 0 {
			return 2, false // more codes than there can be
		}
	}
	for symbol, n := range lengths {
		if n > 0 {
			b.sorted[starts[n]] = uint16(symbol)
			starts[n]++
		}
	}
	return used, space == 0
}
