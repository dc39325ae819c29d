package codec

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/zlib"
)

type zlibBlock struct{ enc *zlib.Writer }

// NewZlibBlock compresses with a level of zlib, and its window of 32 KiB.
func NewZlibBlock(level int) (Block, error) {
	enc, err := zlib.NewWriterLevel(io.Discard, level)
	return zlibBlock{enc}, err
}

func (b zlibBlock) Compress(dst, raw []byte) ([]byte, bool) {
	out := bytes.NewBuffer(dst[:0])
	b.enc.Reset(out)
	_, err := b.enc.Write(raw)
	if closed := b.enc.Close(); err != nil || closed != nil {
		return dst[:0], false // cannot happen: a buffer accepts all writes
	}
	return out.Bytes(), out.Len() < len(raw)
}

// Stored is a Block that compresses nothing.
type Stored struct{}

// Compress returns false.
func (Stored) Compress(dst, _ []byte) ([]byte, bool) { return dst[:0], false }
