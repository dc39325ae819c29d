package squashfs

import blocks "github.com/pinbox/pinbox/storage/codec"

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

// encoder names what compresses: the bytes depend on it.
func (c Compression) encoder() string {
	if c == Zstd {
		return blocks.ID()
	}
	return string(c)
}

// codec compresses blocks independently of each other. It appends the compressed
// form of raw to dst[:0], or says false when that would save nothing.
type codec interface {
	pack(dst, raw []byte) ([]byte, bool)
}

func newCodec(c Compression) (codec, error) {
	block, err := blocks.Block(blocks.Stored{}), error(nil)
	switch c {
	case Zstd:
		block, err = blocks.NewZstdBlock()
	case Gzip:
		block, err = blocks.NewZlibBlock()
	}
	return packer{block}, err
}

type packer struct{ blocks.Block }

func (p packer) pack(dst, raw []byte) ([]byte, bool) { return p.Pack(dst, raw) }
