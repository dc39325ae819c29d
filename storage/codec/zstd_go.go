//go:build !native || !cgo

package codec

import (
	"github.com/klauspost/compress/zstd"
)

type zstdBlock struct{ enc *zstd.Encoder }

// largestBlock is the size of the largest block of a squashfs, in bytes.
const largestBlock = 1 << 20

// NewZstdBlock compresses with a level of libzstd, or the one of klauspost/compress that is most like it,
// into frames of one segment without a checksum: the kernel's decoder for squashfs has a window of one
// block.
func NewZstdBlock(level int) (Block, error) {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true),
		zstd.WithWindowSize(largestBlock), // the buffer of an encoder has two windows
	)
	return zstdBlock{enc}, err
}

func (b zstdBlock) Compress(dst, raw []byte) ([]byte, bool) {
	out := b.enc.EncodeAll(raw, dst[:0])
	return out, len(out) < len(raw)
}

// ZstdID names the zstd encoder, on which the bytes of a block depend: "zstd-go" is the version of
// klauspost/compress that this module requires.
func ZstdID() string { return "zstd-go" }
