package deflate

import "encoding/binary"

// enough bits for the code of a length, with its extra bits, or of a literal.
const enough = 32

// symbols decompresses a block until its end, or until there is neither room nor input for another round. A round takes
// literals, as long as there are enough bits, and a match: a code of up to 15 bits with 5 extra bits, and with bits of
// another word one of up to 15 with 13 extra bits.
func (d *Reader) symbols() (err error) {
	in, out, n := d.in, &d.out, d.write
	symbols, distances := &d.codes.symbols, &d.codes.distances
	data, at, count, b := in.data, in.at, in.count, in.bits
round:
	for at <= in.limit && n < window+chunk {
		b |= binary.LittleEndian.Uint64(data[at:]) << (count & 63)
		at += int(63-count) >> 3
		count |= 56
		e := symbols[b&(1<<symbolBits-1)]
		for e&literal != 0 {
			b, count = b>>(e&63), count-uint(e&63)
			out[n] = byte(e >> valueShift)
			n++
			if count < enough {
				continue round
			}
			e = symbols[b&(1<<symbolBits-1)]
		}
		if e&special != 0 {
			if e&special == table {
				b, count = b>>symbolBits, count-symbolBits
				e = symbols[uint64(e>>valueShift)+b&(1<<(e>>codeShift&codeMask)-1)]
			}
			if e&(special|literal) != 0 {
				b, count = b>>(e&63), count-uint(e&63)
				if e&literal != 0 {
					out[n] = byte(e >> valueShift)
					n++
					continue
				}
				err = d.ending(e)
				break
			}
		}
		length := int(e>>valueShift) + int(b&(1<<(e&63)-1)>>(e>>codeShift&codeMask))
		b, count = b>>(e&63), count-uint(e&63)

		b |= binary.LittleEndian.Uint64(data[at:]) << (count & 63)
		at += int(63-count) >> 3
		count |= 56
		e = distances[b&(1<<distanceBits-1)]
		if e&special == table {
			b, count = b>>distanceBits, count-distanceBits
			e = distances[uint64(e>>valueShift)+b&(1<<(e>>codeShift&codeMask)-1)]
		}
		from := n - int(e>>valueShift) - int(b&(1<<(e&63)-1)>>(e>>codeShift&codeMask))
		b, count = b>>(e&63), count-uint(e&63)
		if e&special != 0 || from < 0 {
			err = ErrCorrupt
			break
		}
		copyMatch(out, n, from, length)
		n += length
	}
	d.in.at, d.in.count, d.in.bits, d.write = at, count, b, n
	return err
}

// ending ends the block, if that is what the entry says.
func (d *Reader) ending(e entry) error {
	if e&special != ending {
		return ErrCorrupt
	}
	d.end()
	return nil
}

// copyMatch copies a match to position to. It writes up to 15 bytes more. Two words at once take less time than one or
// four: most matches are not longer.
func copyMatch(out *[window + chunk + room]byte, to, from, length int) {
	end := to + length
	switch distance := to - from; {
	case distance >= pairSize:
		for ; to < end; to, from = to+pairSize, from+pairSize {
			copy(out[to:to+pairSize], out[from:from+pairSize])
		}
	case distance >= wordSize:
		for ; to < end; to, from = to+wordSize, from+wordSize {
			copy(out[to:to+wordSize], out[from:from+wordSize])
		}
	case distance == 1:
		const ones = 0x0101010101010101
		for word := uint64(out[from]) * ones; to < end; to += wordSize {
			binary.LittleEndian.PutUint64(out[to:to+wordSize], word)
		}
	default:
		for ; to < end; to, from = to+1, from+1 {
			out[to] = out[from]
		}
	}
}
