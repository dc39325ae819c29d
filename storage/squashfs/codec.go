package squashfs

import "github.com/pinbox/pinbox/storage/codec"

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
		return codec.ZstdID()
	}
	return string(c)
}

// newBlock gives what compresses blocks and tables.
func (c Compression) newBlock() (codec.Block, error) {
	switch c {
	case Zstd:
		return codec.NewZstdBlock()
	case Gzip:
		return codec.NewZlibBlock()
	}
	return codec.Stored{}, nil
}
