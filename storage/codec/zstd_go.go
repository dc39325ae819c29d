package codec

import (
	"github.com/klauspost/compress/zstd"
)

type zstdBlock struct{ enc *zstd.Encoder }

// NewZstdBlock compresses by zstd's level 1, into frames of one segment without a
// checksum: the kernel's decoder for squashfs has a window of one block.
func NewZstdBlock() (Block, error) {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(zstdLevel)),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true),
	)
	return zstdBlock{enc}, err
}

func (b zstdBlock) Pack(dst, raw []byte) ([]byte, bool) {
	out := b.enc.EncodeAll(raw, dst[:0])
	return out, len(out) < len(raw)
}
