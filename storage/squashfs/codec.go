package squashfs

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Compression of an image, by the names that mksquashfs has for them.
type Compression string

// Compressions that every kernel of CoreOS reads. None stores everything as it is.
const (
	Zstd Compression = "zstd"
	Gzip Compression = "gzip"
	None Compression = "none"
)

// id is the number of the format; what stores everything needs none of its own.
func (c Compression) id() uint16 {
	if c == Zstd {
		return 6
	}
	return 1
}

// codec compresses blocks independently of each other. It appends the compressed
// form of raw to dst[:0], or says false when that would save nothing.
type codec interface {
	pack(dst, raw []byte) ([]byte, bool)
}

func newCodec(c Compression) (codec, error) {
	switch c {
	case Zstd:
		enc, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false),
			// The kernel's decoder has a window of one block.
			zstd.WithSingleSegment(true),
		)
		return zstdCodec{enc}, err
	case Gzip:
		enc, err := zlib.NewWriterLevel(io.Discard, gzipLevel)
		return &gzipCodec{enc}, err
	}
	return noCodec{}, nil
}

type zstdCodec struct{ enc *zstd.Encoder }

func (c zstdCodec) pack(dst, raw []byte) ([]byte, bool) {
	out := c.enc.EncodeAll(raw, dst[:0])
	return out, len(out) < len(raw)
}

type gzipCodec struct{ enc *zlib.Writer }

func (c *gzipCodec) pack(dst, raw []byte) ([]byte, bool) {
	out := bytes.NewBuffer(dst[:0])
	c.enc.Reset(out)
	_, err := c.enc.Write(raw)
	if closed := c.enc.Close(); err != nil || closed != nil {
		return dst[:0], false // a buffer takes everything
	}
	return out.Bytes(), out.Len() < len(raw)
}

type noCodec struct{}

func (noCodec) pack(dst, _ []byte) ([]byte, bool) { return dst[:0], false }
