package zstd

import "encoding/binary"

// bitWriter writes bits from the lowest of each byte on.
type bitWriter struct {
	out   []byte
	word  uint64
	count uint // of bits in word
}

// add adds up to 57 bits, less those that are not flushed. Bits of value above n must be zero.
func (w *bitWriter) add(value uint64, n uint) {
	w.word |= value << (w.count & 63)
	w.count += n
}

// flush writes whole bytes, so that less than 8 bits are left.
func (w *bitWriter) flush() {
	w.out = binary.LittleEndian.AppendUint64(w.out, w.word)
	w.out = w.out[:len(w.out)-8+int(w.count/8)]
	w.word >>= w.count &^ 7
	w.count &= 7
}

// close writes what is left, and returns all.
func (w *bitWriter) close() []byte {
	w.flush()
	if w.count > 0 {
		w.out = append(w.out, byte(w.word))
	}
	return w.out
}
