package deflate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// MinBuffer is the least size of the buffer of a Reader's source, in bytes.
const MinBuffer = 4096

// ErrCorrupt reports that a stream is no DEFLATE.
var ErrCorrupt = errors.New("corrupt deflate stream")

// Sizes of a Reader's buffers, in bytes.
const (
	window  = 32 << 10 // how far back a match may begin
	chunk   = 64 << 10 // what is decompressed at once
	longest = 258      // of a match
	// room is what one round of Reader.symbols may write: literals of one bit each, and a match that is copied in words.
	room = 64 + longest + pairSize

	// ahead is what is peeked: the header of a block has less than 600 bytes, also if each code in it is the longest.
	ahead = 1024

	wordSize = 8
	pairSize = 2 * wordSize
)

// Reader decompresses a stream, which Reset begins. It has 110 KB, which are worth to be used again for small streams.
type Reader struct {
	source *bufio.Reader
	in     input
	tail   [2 * ahead]byte // the last bytes of the source, and zeros
	state  state
	last   bool // the block is the stream's last
	stored int  // bytes that are left of a stored block
	err    error

	codes codes
	// out[read:write] is decompressed and not read yet. What is before it, a match may refer to.
	out         [window + chunk + room]byte
	read, write int
}

type state int

const (
	atHeader state = iota // of a block
	inStored
	inSymbols
	atEnd
)

// Reset begins a stream of r, whose buffer has MinBuffer bytes at least, and whose source repeats its errors. Nothing
// of r is consumed after the end of the stream.
func (d *Reader) Reset(r *bufio.Reader) error {
	if r.Size() < MinBuffer {
		return fmt.Errorf("deflate: a buffer of %d bytes, want at least %d", r.Size(), MinBuffer)
	}
	d.source = r
	d.in.bits, d.in.count = 0, 0
	d.state, d.last, d.err = atHeader, false, nil
	d.read, d.write = 0, 0
	return nil
}

// Release forgets the source. Reset begins another stream.
func (d *Reader) Release() { d.source, d.in = nil, input{} }

// Read decompresses. It returns io.EOF at the end of the stream, io.ErrUnexpectedEOF if the source ends before it, an
// error of the source unchanged, and otherwise ErrCorrupt.
func (d *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for d.read == d.write {
		if d.err != nil {
			return 0, d.err
		}
		if d.write >= window+chunk {
			copy(d.out[:window], d.out[d.write-window:d.write])
			d.read, d.write = window, window
		}
		d.err = d.fill()
	}
	n := copy(p, d.out[d.read:d.write])
	d.read += n
	return n, nil
}

// fill decompresses until the buffer is full, or the buffered input is used up.
func (d *Reader) fill() error {
	size, sourceErr := d.peek()
	started := d.write
	err := d.blocks()
	used := d.in.unread()
	if used > size {
		// What was decompressed of the zeros after the last byte is none of the stream.
		d.write = started
		if sourceErr == io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end
			return io.ErrUnexpectedEOF
		}
		return sourceErr
	}
	if _, discardErr := d.source.Discard(used); err == nil {
		err = discardErr // cannot happen: the bytes are buffered
	}
	return err
}

// peek makes the input what is buffered of the source, or its last bytes, and returns how many bytes are the source's.
func (d *Reader) peek() (int, error) {
	b, err := d.source.Peek(max(ahead, d.source.Buffered()))
	if err == nil {
		d.in.data, d.in.at, d.in.limit = b, 0, len(b)-2*wordSize
		return len(b), nil
	}
	clear(d.tail[copy(d.tail[:], b):])
	d.in.data, d.in.at, d.in.limit = d.tail[:len(b)+ahead], 0, len(b)+wordSize
	return len(b), err
}

// blocks decompresses what there is room and input for.
func (d *Reader) blocks() (err error) {
	for err == nil {
		switch {
		case d.state == atEnd:
			return io.EOF
		case d.write >= window+chunk, d.in.at > d.in.limit:
			return nil
		case d.state == inSymbols:
			err = d.symbols()
		case d.state == inStored:
			d.copyStored()
		case len(d.in.data)-d.in.at < ahead-wordSize:
			return nil // the header may be longer than what is left
		default:
			err = d.header()
		}
	}
	return err
}

// end ends a block.
func (d *Reader) end() {
	d.state = atHeader
	if d.last {
		d.state = atEnd
	}
}

// header reads the header of a block. Format: RFC 1951, 3.2.3.
func (d *Reader) header() error {
	d.in.refill()
	d.last = d.in.take(1) == 1
	switch d.in.take(2) {
	case 0:
		d.in.take(d.in.count & 7)
		d.in.refill()
		size := d.in.take(16)
		if d.in.take(16) != ^size&0xffff {
			return ErrCorrupt
		}
		d.state, d.stored = inStored, int(size)
	case 1:
		d.state = inSymbols
		d.codes.fixed()
	case 2:
		d.state = inSymbols
		return d.codes.read(&d.in)
	default:
		return ErrCorrupt
	}
	return nil
}

// copyStored copies what there is room and input for.
func (d *Reader) copyStored() {
	d.in.unread()
	n := min(d.stored, len(d.in.data)-d.in.at, window+chunk-d.write)
	copy(d.out[d.write:], d.in.data[d.in.at:d.in.at+n])
	d.in.at += n
	d.write += n
	if d.stored -= n; d.stored == 0 {
		d.end()
	}
}
