package codec

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/zlib"
)

// zlibLevel of blocks.
const zlibLevel = 6

type zlibBlock struct{ enc *zlib.Writer }

// NewZlibBlock compresses by zlib's level 6 with its window of 32 KiB; in both kinds
// of build by the same library.
func NewZlibBlock() (Block, error) {
	enc, err := zlib.NewWriterLevel(io.Discard, zlibLevel)
	return zlibBlock{enc}, err
}

func (b zlibBlock) Compress(dst, raw []byte) ([]byte, bool) {
	out := bytes.NewBuffer(dst[:0])
	b.enc.Reset(out)
	_, err := b.enc.Write(raw)
	if closed := b.enc.Close(); err != nil || closed != nil {
		return dst[:0], false // a buffer takes everything
	}
	return out.Bytes(), out.Len() < len(raw)
}

// Stored is a Block that compresses nothing.
type Stored struct{}

// Compress says false.
func (Stored) Compress(dst, _ []byte) ([]byte, bool) { return dst[:0], false }
