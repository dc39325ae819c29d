package codec

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/pinbox/pinbox/storage/deflate"
)

// Errors of a gzip stream.
var (
	// ErrHeader reports that a member, or what follows the last one, does not begin with a header.
	ErrHeader = gzip.ErrHeader
	// ErrChecksum reports that a member's content has another checksum or length.
	ErrChecksum = gzip.ErrChecksum
)

// Flags of a member's header. Format: RFC 1952.
const (
	gzipHeaderCRC = 1 << 1
	gzipExtra     = 1 << 2
	gzipName      = 1 << 3
	gzipComment   = 1 << 4
	gzipReserved  = 0xe0

	gzipHeaderSize  = 10
	gzipTextMax     = 512 // bytes of a name or comment, the limit of compress/gzip
	gzipDeflate     = 8
	gzipTrailerSize = 8
)

// gzipReader reads the framing of gzip.
type gzipReader struct {
	in   *bufio.Reader
	body *deflate.Reader
	err  error

	// sum and size of the member's content so far
	sum  uint32
	size uint32
}

// readers are those of streams that have ended: most layers are smaller than one.
var readers = sync.Pool{New: func() any { return new(deflate.Reader) }}

// NewGzipReader decompresses a gzip stream of one or more members. If r is a *bufio.Reader of 4 KiB at least, nothing
// is consumed after the last member, and r must repeat its errors. Errors of r are returned unchanged. A stream that
// ends early is io.ErrUnexpectedEOF; an empty one is io.EOF, of NewGzipReader itself. The caller closes the result.
// Format: RFC 1952.
func NewGzipReader(r io.Reader) (io.ReadCloser, error) {
	z := &gzipReader{in: buffered(r)}
	if err := z.header(); err != nil {
		return nil, err
	}
	z.body = readers.Get().(*deflate.Reader)
	return z, z.body.Reset(z.in)
}

// Read decompresses. The data is verified only when Read returns io.EOF.
func (z *gzipReader) Read(p []byte) (n int, err error) {
	for n == 0 && z.err == nil && len(p) > 0 {
		if n, z.err = z.inflate(p); z.err == io.EOF { //nolint:errorlint // as noEOF
			if z.err = z.header(); z.err == nil {
				z.sum, z.size = 0, 0
				_ = z.body.Reset(z.in) // it fails only for a small buffer
			}
		}
	}
	return n, z.err
}

// inflate decompresses what follows a member's header. It returns io.EOF after the member's trailer, if the checksum
// matches.
func (z *gzipReader) inflate(p []byte) (int, error) {
	n, err := z.body.Read(p)
	z.sum = crc32.Update(z.sum, crc32.IEEETable, p[:n])
	z.size += uint32(n)
	if err != io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end
		return n, err
	}
	var trailer [gzipTrailerSize]byte
	if _, err := io.ReadFull(z.in, trailer[:]); err != nil {
		return n, noEOF(err)
	}
	le := binary.LittleEndian
	if le.Uint32(trailer[:]) != z.sum || le.Uint32(trailer[4:]) != z.size {
		return n, ErrChecksum
	}
	return n, io.EOF
}

// Close frees the decompressor. It does not close the underlying reader.
func (z *gzipReader) Close() error {
	if z.err == errClosed { //nolint:errorlint // set by Close alone
		return nil
	}
	z.err = errClosed
	z.body.Release()
	readers.Put(z.body)
	z.body = nil
	return nil
}

// header reads the header of a member. The error is io.EOF after the last member.
func (z *gzipReader) header() error {
	head, err := z.in.Peek(gzipHeaderSize)
	if len(head) == 0 {
		return err
	}
	if len(head) < gzipHeaderSize {
		return noEOF(err)
	}
	if head[0] != 0x1f || head[1] != 0x8b || head[2] != gzipDeflate {
		return ErrHeader
	}
	flags, sum := head[3], crc32.ChecksumIEEE(head)
	if _, err := z.in.Discard(len(head)); err != nil {
		return err
	}
	if flags&gzipExtra != 0 {
		if err := z.extra(&sum); err != nil {
			return err
		}
	}
	for _, text := range []byte{gzipName, gzipComment} {
		if flags&text != 0 {
			if err := z.text(&sum); err != nil {
				return err
			}
		}
	}
	if flags&gzipHeaderCRC != 0 {
		b, err := z.take(2, new(uint32))
		if err != nil {
			return err
		}
		if binary.LittleEndian.Uint16(b) != uint16(sum) {
			return ErrHeader
		}
	}
	if flags&gzipReserved != 0 {
		return ErrHeader
	}
	return nil
}

func (z *gzipReader) extra(sum *uint32) error {
	b, err := z.take(2, sum)
	if err != nil {
		return err
	}
	_, err = z.take(int(binary.LittleEndian.Uint16(b)), sum)
	return err
}

// text skips a name or comment, which a zero ends.
func (z *gzipReader) text(sum *uint32) error {
	for range gzipTextMax {
		b, err := z.take(1, sum)
		if err != nil || b[0] == 0 {
			return err
		}
	}
	return ErrHeader
}

// take reads n bytes, and adds them to the header's checksum.
func (z *gzipReader) take(n int, sum *uint32) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(z.in, b); err != nil {
		return nil, noEOF(err)
	}
	*sum = crc32.Update(*sum, crc32.IEEETable, b)
	return b, nil
}
