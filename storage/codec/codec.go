package codec

import (
	"bufio"
	"errors"
	"io"

	"github.com/pinbox/pinbox/storage/deflate"
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

// buffered returns r itself if it is a *bufio.Reader, unless its buffer is small: then nothing is consumed after the
// compressed stream.
func buffered(r io.Reader) *bufio.Reader {
	if b, ok := r.(*bufio.Reader); ok && b.Size() >= deflate.MinBuffer {
		return b
	}
	return bufio.NewReaderSize(&repeating{r: r}, inputSize)
}

// repeating returns the first error again whenever it is read: storage/deflate peeks, and may see an error before it
// needs the bytes that are missing.
type repeating struct {
	r   io.Reader
	err error
}

func (s *repeating) Read(p []byte) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	n, s.err = s.r.Read(p)
	return n, s.err
}

// noEOF converts io.EOF to io.ErrUnexpectedEOF, where the input must not end.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end
		return io.ErrUnexpectedEOF
	}
	return err
}
