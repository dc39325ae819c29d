package codec

import (
	"bufio"
	"io"

	"github.com/klauspost/compress/zstd"
)

// defaultLevel is the level of libzstd whose size of blocks this package comes near, with other means.
const defaultLevel = 3

// MaxWindow is the largest window of a zstd frame, in bytes: that of zstd(1), unless it is called
// with --long=28 or more. A reader allocates as much.
const MaxWindow = 128 << 20

// largeWindow is the window from which a reader saves memory rather than time, in bytes.
const largeWindow = 16 << 20

// ErrWindow reports a frame with a larger window than the reader permits.
var ErrWindow = zstd.ErrWindowSizeExceeded

// ZstdWindow returns the window of the first frame in bytes, or 0 if there is none.
func ZstdWindow(r *bufio.Reader) uint64 {
	head, _ := r.Peek(zstd.HeaderMaxSize) // a short stream is not an error here
	var frame zstd.Header
	if frame.Decode(head) != nil {
		return 0
	}
	return max(frame.WindowSize, min(frame.FrameContentSize, MaxWindow))
}

// NewZstdReader decompresses a zstd stream of any number of frames, including skippable ones. An
// empty stream is io.EOF; one that ends early is io.ErrUnexpectedEOF. Errors of r are returned
// unchanged, except within a skippable frame, where they are io.ErrUnexpectedEOF. The caller closes
// the result, at any point. A frame with a larger window, in bytes, is ErrWindow. Both kinds of build
// use the same library: libzstd is not faster. Format: RFC 8878.
func NewZstdReader(r io.Reader, window uint64) (io.ReadCloser, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderLowmem(window > largeWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}
