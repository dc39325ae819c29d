package codec

import (
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdLevel is libzstd's number of the level that klauspost/compress calls fastest.
const zstdLevel = 1

// maxWindow of a zstd frame in bytes: 512 MiB, as containers/storage has it. It bounds
// what a reader allocates.
const maxWindow = 512 << 20

// NewZstdReader decompresses a zstd stream of any number of frames, skippable ones
// among them. An empty one is io.EOF, one that ends early io.ErrUnexpectedEOF; errors
// of r come back as they are, but for those within a skippable frame, which are
// io.ErrUnexpectedEOF. The caller closes what it got, at any point. Both kinds of
// build use the same library: libzstd is not faster. Format: RFC 8878.
func NewZstdReader(r io.Reader) (io.ReadCloser, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}
