//go:build !native || !cgo

package codec

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

type zstdBlock struct{ enc *zstd.Encoder }

// NewZstdBlock compresses with zstd's level 1, into frames of one segment without a checksum: the
// kernel's decoder for squashfs has a window of one block.
func NewZstdBlock() (Block, error) {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(zstdLevel)),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true),
	)
	return zstdBlock{enc}, err
}

func (b zstdBlock) Compress(dst, raw []byte) ([]byte, bool) {
	out := b.enc.EncodeAll(raw, dst[:0])
	return out, len(out) < len(raw)
}

// ZstdID names the zstd encoder, on which the bytes of a block depend: "zstd-go-1" is level 1 of the
// version of klauspost/compress that this module requires.
func ZstdID() string { return fmt.Sprintf("zstd-go-%d", zstdLevel) }
