package squashfs

import "github.com/klauspost/compress/zstd"

// codec compresses blocks independently of each other.
type codec struct{ enc *zstd.Encoder }

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		// The kernel's decoder has a window of one block.
		zstd.WithSingleSegment(true),
	)
	if err != nil {
		return nil, err
	}
	return &codec{enc: enc}, nil
}

// pack appends the compressed form of raw to dst[:0], or says false when that
// would save nothing.
func (c *codec) pack(dst, raw []byte) ([]byte, bool) {
	out := c.enc.EncodeAll(raw, dst[:0])
	return out, len(out) < len(raw)
}
