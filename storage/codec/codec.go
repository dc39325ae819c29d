package codec

import (
	"bufio"
	"errors"
	"io"
)

// Block compresses blocks independently of each other. One goroutine at a time
// uses it. It holds nothing that must be closed.
type Block interface {
	// Compress appends the compressed form of raw to dst[:0], which has the room that
	// dst has, or grows. It says false when that would save nothing; then what it
	// returns is of use as the next dst only.
	Compress(dst, raw []byte) ([]byte, bool)
}

// inputSize in bytes is how much of a source is read at a time.
const inputSize = 64 << 10

var errClosed = errors.New("read of a decompressor that is closed")

// buffered returns r itself when it is buffered: then nothing of it is consumed
// but what was decompressed.
func buffered(r io.Reader) *bufio.Reader {
	if b, ok := r.(*bufio.Reader); ok {
		return b
	}
	return bufio.NewReaderSize(r, inputSize)
}

// noEOF is for places where the input must not end.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // a source may fail with an error that wraps it
		return io.ErrUnexpectedEOF
	}
	return err
}
