package squashfs

import (
	"fmt"

	"github.com/pinbox/pinbox/storage/codec"
)

// Compression of an image, by its name in mksquashfs.
type Compression string

// Compressions that every kernel of CoreOS reads. None stores all blocks uncompressed.
const (
	Zstd Compression = "zstd"
	Gzip Compression = "gzip"
	None Compression = "none"
)

// Level says how much CPU time blocks may take to become smaller; reading them takes about as long.
type Level string

// Levels of zstd and gzip.
const (
	Fast    Level = "fast"
	Default Level = "default"
	Best    Level = "best"
)

// levels are the numbers of the levels in libzstd and zlib. 3 is zstd's default, 15 that of mksquashfs.
var levels = map[Compression]map[Level]int{
	Zstd: {Fast: 1, Default: 3, Best: 15},
	Gzip: {Fast: 1, Default: 6, Best: 9},
}

// levelOf returns the level with a number; Default if pinbox writes none with it.
func (c Compression) levelOf(number int) Level {
	for level, n := range levels[c] {
		if n == number {
			return level
		}
	}
	return Default
}

// id is the number in the superblock. None has no number of its own: its images are gzip images of
// blocks that are all stored.
func (c Compression) id() uint16 {
	if c == Zstd {
		return 6
	}
	return 1
}

// level returns the number of the level, 0 if nothing is compressed.
func (o Options) level() int { return levels[o.Compression][o.Level] }

// encoder names the encoder and its level, which determine the compressed bytes.
func (o Options) encoder() string {
	switch o.Compression {
	case Zstd:
		return codec.ZstdBlockID(o.level())
	case Gzip:
		return fmt.Sprintf("%s-%d", o.Compression, o.level())
	}
	return string(o.Compression)
}

// newBlock returns an encoder for blocks and tables.
func (o Options) newBlock() (codec.Block, error) {
	switch o.Compression {
	case Zstd:
		return codec.NewZstdBlock(o.level())
	case Gzip:
		return codec.NewZlibBlock(o.level())
	}
	return codec.Stored{}, nil
}
