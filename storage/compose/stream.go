package compose

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"
	"syscall"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/codec"
	"github.com/pinbox/pinbox/storage/fault"
)

// Errors in the stream of a layer.
var (
	ErrCompression = fault.New(fault.Damaged, "layer cannot be decompressed",
		"the image was damaged before it was pushed; build and push it again")
	// ErrUnsupported is for a layer that is intact, but compressed otherwise than OCI and Docker do.
	ErrUnsupported = fault.New(fault.Input, "pinbox does not read layers of this compression",
		"copy the image with `skopeo copy --dest-compress-format zstd`, and name the copy")
	ErrDiffID = fault.New(fault.Damaged, "layer content does not match the diffID of the image configuration",
		"the image was damaged before it was pushed; build and push it again")
)

// compression of a layer, with the values that containers/storage writes into its records
// (pkg/archive/archive.go).
type compression int

const (
	uncompressed   compression = 0
	gzipCompressed compression = 2
	zstdCompressed compression = 4
)

const chunkSize = 256 << 10

// smallWindow is the largest window of a zstd stream that does not wait for its turn, in bytes. Only
// `zstd --ultra` and `--long` make larger ones.
const smallWindow = 16 << 20

// stream is a layer's uncompressed tar stream. A goroutine decompresses a few chunks in advance, to
// use a second CPU.
type stream struct {
	kind   compression
	chunks chan []byte
	free   chan []byte
	stop   context.CancelFunc
	limit  int64 // for size
	window uint64
	err    error // of the decompressor, once chunks is closed
	failed error // err, once Read has returned it

	made      int // chunks
	buf, rest []byte
	sum       hash.Hash // nil if the blob's reader verifies the DiffID
	size      int64
}

// openStream starts to decompress a blob. The caller calls close, at any point of the stream.
func openStream(b *budget, from Blob) (*stream, error) {
	ctx, stop := context.WithCancel(b.ctx)
	blob, err := from.Open(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	s := &stream{
		chunks: make(chan []byte, 4), free: make(chan []byte, 6), stop: stop,
		limit: b.limits.Size, window: smallWindow,
	}
	in := inputs.Get().(*bufio.Reader)
	in.Reset(blob)
	magic, err := in.Peek(len(xzMagic))
	if other := unsupported(magic); other != "" {
		stop()
		release(in)
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrUnsupported, other), blob.Close())
	}
	s.kind = sniff(magic)
	if s.kind != uncompressed || !from.Verified {
		s.sum = sha256.New()
	}
	if s.kind == zstdCompressed && codec.ZstdWindow(in) > smallWindow {
		s.window = codec.MaxWindow
		if err := b.wait(); err != nil {
			stop()
			release(in)
			return nil, errors.Join(err, blob.Close())
		}
	}
	go func() {
		defer close(s.chunks)
		defer release(in)
		if err == nil || errors.Is(err, io.EOF) {
			err = s.pump(ctx, in)
		}
		s.err = errors.Join(err, blob.Close())
	}()
	return s, nil
}

// compressionOf returns the compression of a layer's blob in the registry.
func compressionOf(l Layer) compression {
	switch {
	case l.Digest == l.DiffID:
		return uncompressed
	case strings.HasSuffix(l.MediaType, "zstd"):
		return zstdCompressed
	}
	return gzipCompressed // the first media types of Docker do not contain it
}

// The first bytes of a stream of xz, and of one of bzip2 with blocks of 900 kB, the default.
const (
	xzMagic    = "\xfd7zXZ\x00"
	bzip2Magic = "BZh91A"
)

// unsupported names a compression that pinbox does not read.
func unsupported(magic []byte) string {
	switch string(magic) {
	case xzMagic:
		return "xz"
	case bzip2Magic:
		return "bzip2"
	}
	return ""
}

func sniff(magic []byte) compression {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzipCompressed
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(magic) >= 4 && magic[0]&0xf0 == 0x50 &&
		bytes.Equal(magic[1:4], []byte{0x2a, 0x4d, 0x18}):
		return zstdCompressed
	}
	return uncompressed
}

// pump decompresses the blob, and reads it to the end, where its reader verifies it.
func (s *stream) pump(ctx context.Context, in *bufio.Reader) error {
	plain, err := s.decompress(ctx, in)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// A blob with a wrong digest is the cause of other errors.
	if _, blobErr := io.Copy(io.Discard, in); blobErr != nil {
		return blobErr
	}
	if plain {
		return err
	}
	if errors.Is(err, codec.ErrWindow) {
		return fmt.Errorf("%w: %w", ErrWindow, err)
	}
	return fmt.Errorf("%w: %w", ErrCompression, err)
}

// decompress reports with an error whether it is an error of the blob's reader.
func (s *stream) decompress(ctx context.Context, in *bufio.Reader) (plain bool, err error) {
	out := io.NopCloser(in)
	switch s.kind {
	case gzipCompressed:
		out, err = codec.NewGzipReader(in)
	case zstdCompressed:
		out, err = codec.NewZstdReader(in, s.window)
	}
	if err != nil {
		return false, err
	}
	defer out.Close()
	for {
		chunk := s.chunk(ctx)
		if chunk == nil {
			return true, ctx.Err()
		}
		n, err := 0, error(nil)
		for n < len(chunk) && err == nil {
			var m int
			m, err = out.Read(chunk[n:])
			n += m
		}
		select {
		case s.chunks <- chunk[:n]:
		case <-ctx.Done():
			return true, ctx.Err()
		}
		if err == io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end
			_, err := io.Copy(io.Discard, in)
			return true, err
		}
		if err != nil {
			return s.kind == uncompressed, err
		}
	}
}

// chunk returns a free chunk, or nil when ctx ends.
func (s *stream) chunk(ctx context.Context) []byte {
	select {
	case chunk := <-s.free:
		return chunk
	default:
	}
	if s.made < cap(s.free) {
		s.made++
		return chunks.Get().(*[chunkSize]byte)[:]
	}
	select {
	case chunk := <-s.free:
		return chunk
	case <-ctx.Done():
		return nil
	}
}

// inputs and chunks are those of streams that have ended: most layers are smaller than one.
var (
	inputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}
	chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}
)

// release gives a buffer back that is not read any more.
func release(in *bufio.Reader) {
	in.Reset(nil) // so that the blob does not stay in memory
	inputs.Put(in)
}

func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.buf != nil {
			s.free <- s.buf[:chunkSize]
			s.buf = nil
		}
		chunk, ok := <-s.chunks
		if !ok {
			if s.failed = s.err; s.failed != nil {
				return 0, s.failed
			}
			return 0, io.EOF
		}
		s.buf, s.rest = chunk, chunk
		if s.sum != nil {
			s.sum.Write(chunk)
		}
		if s.size += int64(len(chunk)); s.size > s.limit {
			return 0, fmt.Errorf("%w: its stream has more than %s", ErrTooLarge, bytesize.Format(s.limit))
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// verify compares what was read to the end with the layer's diffID.
func (s *stream) verify(want digest.Digest) error {
	if s.sum == nil {
		return nil
	}
	if got := digest.NewDigest(digest.SHA256, s.sum); got != want {
		return fmt.Errorf("%w: the content has %s, the configuration %s", ErrDiffID, got, want)
	}
	return nil
}

// explain returns the error of a stream that could not be read: an error of the blob or a wrong
// digest of the layer, if that is the cause, or else err.
func (s *stream) explain(ctx context.Context, err error, want digest.Digest) error {
	var errno syscall.Errno
	switch {
	case ctx.Err() != nil || isLimit(err):
		return err
	case s.failed != nil: // it may have a syscall.Errno too, such as ECONNREFUSED
		return s.failed
	case errors.As(err, &errno): // an error of the disk
		return err
	}
	if _, cause := io.Copy(io.Discard, s); cause != nil {
		return cause
	}
	if cause := s.verify(want); cause != nil {
		return cause
	}
	return err
}

// close stops the goroutine and waits for its end.
func (s *stream) close() {
	s.stop()
	for chunk := range s.chunks {
		s.free <- chunk[:chunkSize]
	}
	if s.buf != nil {
		s.free <- s.buf[:chunkSize]
		s.buf, s.rest = nil, nil
	}
	close(s.free)
	for chunk := range s.free {
		chunks.Put((*[chunkSize]byte)(chunk))
	}
}
