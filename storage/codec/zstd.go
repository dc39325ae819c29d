package codec

import (
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdLevel is libzstd's number of the level that klauspost/compress calls fastest.
const zstdLevel = 1

// maxWindow is the largest window of a zstd frame, in bytes, as in containers/storage. It limits
// the memory of a reader.
const maxWindow = 512 << 20

// NewZstdReader decompresses a zstd stream of any number of frames, including skippable ones. An
// empty stream is io.EOF; one that ends early is io.ErrUnexpectedEOF. Errors of r are returned
// unchanged, except within a skippable frame, where they are io.ErrUnexpectedEOF. The caller closes
// the result, at any point. Both kinds of build use the same library: libzstd is not faster.
// Format: RFC 8878.
func NewZstdReader(r io.Reader) (io.ReadCloser, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}
