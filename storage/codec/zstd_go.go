//go:build !native || !cgo

package codec

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/zstd"

	best "github.com/pinbox/pinbox/storage/zstd"
)

type zstdBlock struct{ enc *zstd.Encoder }

// largestBlock is the size of the largest block of a squashfs, in bytes.
const largestBlock = 1 << 20

// bestLevel is the first level of libzstd for which klauspost/compress has none that compresses as much.
const bestLevel = 10

// bestBlock compresses with our own encoder. Nobody else has tried that, so the library decompresses each frame again,
// in a hundredth of the time: a block whose frame is wrong is stored as it is.
type bestBlock struct {
	encode  func(out, content []byte) []byte
	dec     *zstd.Decoder
	content []byte
}

func (b *bestBlock) Compress(dst, raw []byte) ([]byte, bool) {
	out := b.encode(dst[:0], raw)
	content, err := b.dec.DecodeAll(out, b.content[:0])
	b.content = content
	return out, len(out) < len(raw) && err == nil && bytes.Equal(content, raw)
}

// NewZstdBlock compresses with a level of libzstd, or the one of klauspost/compress or of ours that is most like it,
// into frames of one segment without a checksum: the kernel's decoder for squashfs has a window of one
// block.
func NewZstdBlock(level int) (Block, error) {
	if level >= bestLevel {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(largestBlock))
		return &bestBlock{encode: best.NewEncoder().Append, dec: dec}, err
	}
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

// ZstdBlockID names the encoder of a level.
func ZstdBlockID(level int) string {
	if level >= bestLevel {
		return fmt.Sprintf("zstd-pinbox%d-%d", best.Version, level)
	}
	return fmt.Sprintf("%s-%d", ZstdID(), level)
}

// ZstdID names the zstd encoder, on which the bytes of a block depend: "zstd-go" is the version of
// klauspost/compress that this module requires.
func ZstdID() string { return "zstd-go" }
