package codec

import (
	"bufio"
	"errors"
	"io"
)

// Block compresses blocks independently of each other. It is used from one goroutine at a time, and
// need not be closed.
type Block interface {
	// Compress appends the compressed form of raw to dst[:0]. It returns false if that is not
	// smaller than raw; then the slice is only good as the next dst.
	Compress(dst, raw []byte) ([]byte, bool)
}

// inputSize is the size of the read buffer, in bytes.
const inputSize = 64 << 10

var errClosed = errors.New("read from a closed decompressor")

// buffered returns r itself if it is a *bufio.Reader: then nothing is consumed after the compressed
// stream.
func buffered(r io.Reader) *bufio.Reader {
	if b, ok := r.(*bufio.Reader); ok {
		return b
	}
	return bufio.NewReaderSize(r, inputSize)
}

// noEOF converts io.EOF to io.ErrUnexpectedEOF, where the input must not end.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end
		return io.ErrUnexpectedEOF
	}
	return err
}
