//go:build !native || !cgo

package codec

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

type goInflater struct {
	in   *bufio.Reader
	body io.ReadCloser
	sum  uint32
	size uint32
}

func newInflater(in *bufio.Reader) (inflater, error) {
	return &goInflater{in: in, body: flate.NewReader(in)}, nil
}

func (f *goInflater) reset() {
	f.sum, f.size = 0, 0
	// It fails only with a dictionary.
	_ = f.body.(flate.Resetter).Reset(f.in, nil)
}

func (f *goInflater) Read(p []byte) (int, error) {
	n, err := f.body.Read(p)
	f.sum = crc32.Update(f.sum, crc32.IEEETable, p[:n])
	f.size += uint32(n)
	if err != io.EOF {
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

func (f *goInflater) Close() error { return f.body.Close() }
