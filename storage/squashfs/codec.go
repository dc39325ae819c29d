package squashfs

import "github.com/pinbox/pinbox/storage/codec"

// Compression of an image, by its name in mksquashfs.
type Compression string

// Compressions that every kernel of CoreOS reads. None stores all blocks uncompressed.
const (
	Zstd Compression = "zstd"
	Gzip Compression = "gzip"
	None Compression = "none"
)

// id is the number in the superblock. None has no number of its own: its images are gzip images of
// blocks that are all stored.
func (c Compression) id() uint16 {
	if c == Zstd {
		return 6
	}
	return 1
}

// encoder names the encoder, which determines the compressed bytes.
func (c Compression) encoder() string {
	if c == Zstd {
		return codec.ZstdID()
	}
	return string(c)
}

// newBlock returns an encoder for blocks and tables.
func (c Compression) newBlock() (codec.Block, error) {
	switch c {
	case Zstd:
		return codec.NewZstdBlock()
	case Gzip:
		return codec.NewZlibBlock()
	}
	return codec.Stored{}, nil
}
