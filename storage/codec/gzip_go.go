//go:build !native || !cgo

package codec

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"

	"github.com/pinbox/pinbox/storage/deflate"
)

type goInflater struct {
	in   *bufio.Reader
	body *deflate.Reader
	sum  uint32
	size uint32
}

// readers are those of streams that have ended: most layers are smaller than one.
var readers = sync.Pool{New: func() any { return new(deflate.Reader) }}

func newInflater(in *bufio.Reader) (inflater, error) {
	body := readers.Get().(*deflate.Reader)
	return &goInflater{in: in, body: body}, body.Reset(in)
}

func (f *goInflater) reset() {
	f.sum, f.size = 0, 0
	_ = f.body.Reset(f.in) // it fails only for a small buffer
}

func (f *goInflater) Read(p []byte) (int, error) {
	n, err := f.body.Read(p)
	f.sum = crc32.Update(f.sum, crc32.IEEETable, p[:n])
	f.size += uint32(n)
	if err != io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end
		return n, err
	}
	var trailer [gzipTrailerSize]byte
	if _, err := io.ReadFull(f.in, trailer[:]); err != nil {
		return n, noEOF(err)
	}
	le := binary.LittleEndian
	if le.Uint32(trailer[:]) != f.sum || le.Uint32(trailer[4:]) != f.size {
		return n, ErrChecksum
	}
	return n, io.EOF
}

func (f *goInflater) Close() error {
	f.body.Release()
	readers.Put(f.body)
	f.body = nil
	return nil
}
