package codec

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	own "github.com/pinbox/pinbox/storage/zstd"
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
// the result, at any point. A frame with a larger window, in bytes, is ErrWindow. Format: RFC 8878.
func NewZstdReader(r io.Reader, window uint64) (io.ReadCloser, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderLowmem(window > largeWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

// largestBlock is the size of the largest block of a squashfs, in bytes.
const largestBlock = 1 << 20

// bestLevel is the level from which on storage/zstd makes smaller blocks than klauspost/compress.
const bestLevel = 10

// fastBlock compresses with klauspost/compress.
type fastBlock struct{ enc *zstd.Encoder }

func (b fastBlock) Compress(dst, raw []byte) ([]byte, bool) {
	out := b.enc.EncodeAll(raw, dst[:0])
	return out, len(out) < len(raw)
}

// checkedBlock compresses with storage/zstd. Nobody else has tried that, so the library decompresses each frame again:
// a block whose frame is wrong is stored as it is.
type checkedBlock struct {
	encode  func(out, content []byte) []byte
	dec     *zstd.Decoder
	content []byte
}

func (b *checkedBlock) Compress(dst, raw []byte) ([]byte, bool) {
	out := b.encode(dst[:0], raw)
	if len(out) >= len(raw) {
		return out, false
	}
	content, err := b.dec.DecodeAll(out, b.content[:0])
	b.content = content
	return out, err == nil && bytes.Equal(content, raw)
}

// NewZstdBlock compresses with what is most like a level of libzstd: 1, 3 or 15. It makes frames of one segment without
// a checksum: the kernel's decoder for squashfs has a window of one block.
func NewZstdBlock(level int) (Block, error) {
	if level < defaultLevel {
		enc, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
			zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false),
			zstd.WithSingleSegment(true),
			zstd.WithWindowSize(largestBlock), // the buffer of an encoder has two windows
		)
		return fastBlock{enc}, err
	}
	encoder := own.NewDefault()
	if level >= bestLevel {
		encoder = own.NewBest()
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(largestBlock))
	return &checkedBlock{encode: encoder.Append, dec: dec}, err
}

// ZstdBlockID names the encoder of a level: "zstd-go" is the version of klauspost/compress that this module requires.
func ZstdBlockID(level int) string {
	if level >= defaultLevel {
		return fmt.Sprintf("%s-%d", ZstdID(), level)
	}
	return fmt.Sprintf("zstd-go-%d", level)
}

// ZstdID names the zstd encoder, on which the bytes of a block depend: "zstd-pinbox2" is version 2 of storage/zstd.
func ZstdID() string { return fmt.Sprintf("zstd-pinbox%d", own.Version) }
