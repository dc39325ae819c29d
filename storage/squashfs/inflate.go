package squashfs

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// inflater decompresses blocks of data and of tables. It is used from one goroutine.
type inflater struct {
	compression Compression
	zstd        *zstd.Decoder
	in          bytes.Reader
	zlib        io.ReadCloser
}

var errTooLong = errors.New("more data than a block holds")

// inflate decompresses packed to dst[:0]. More data than the capacity of dst is an error.
func (f *inflater) inflate(dst, packed []byte) ([]byte, error) {
	if f.compression == Zstd {
		return f.inflateZstd(dst, packed)
	}
	return f.inflateZlib(dst, packed)
}

func (f *inflater) inflateZstd(dst, packed []byte) ([]byte, error) {
	if f.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		f.zstd = d
	}
	return f.zstd.DecodeAll(packed, dst[:0])
}

func (f *inflater) inflateZlib(dst, packed []byte) ([]byte, error) {
	f.in.Reset(packed)
	if f.zlib == nil {
		z, err := zlib.NewReader(&f.in)
		if err != nil {
			return nil, err
		}
		f.zlib = z
	} else if err := f.zlib.(zlib.Resetter).Reset(&f.in, nil); err != nil {
		return nil, err
	}
	n, last, err := fill(f.zlib, dst[:cap(dst)])
	if err != nil || last {
		return dst[:n], err
	}
	if _, last, err = fill(f.zlib, make([]byte, 1)); err == nil && !last {
		err = errTooLong
	}
	return dst[:n], err
}
