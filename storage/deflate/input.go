package deflate

import "encoding/binary"

// input are the bits of a stream, from the lowest of each byte on.
type input struct {
	data  []byte
	at    int    // the next byte of data
	limit int    // the last position at which a round of Reader.symbols may begin
	bits  uint64 // what is taken from data, but not used
	count uint   // of bits that are known; those above may be set already, to what the next byte will set them to
}

// refill makes at least 56 bits known. It reads a word, of which it uses as many bytes as there is room for.
func (in *input) refill() {
	in.bits |= binary.LittleEndian.Uint64(in.data[in.at:]) << (in.count & 63)
	in.at += int(63-in.count) / 8
	in.count |= 56
}

// take returns n bits, which are known.
func (in *input) take(n uint) uint {
	value := uint(in.bits) & (1<<n - 1)
	in.bits >>= n
	in.count -= n
	return value
}

// unread puts back whole bytes, and returns the position.
func (in *input) unread() int {
	in.at -= int(in.count / 8)
	in.count &= 7
	in.bits &= 1<<in.count - 1
	return in.at
}
