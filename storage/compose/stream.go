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
	"syscall"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/codec"
)

// What can be wrong with a layer as a whole.
var (
	ErrCompression = errors.New("layer cannot be decompressed")
	ErrDiffID      = errors.New("layer content does not match the diffID of the image configuration")
)

// compression of a layer, by the numbers that containers/storage writes into
// its records (pkg/archive/archive.go).
type compression int

const (
	uncompressed   compression = 0
	gzipCompressed compression = 2
	zstdCompressed compression = 4
)

const chunkSize = 256 << 10

// stream is a layer's uncompressed tar stream. Decompression runs ahead by a few
// chunks, so that it has a core of its own.
type stream struct {
	kind   compression
	chunks chan []byte
	free   chan []byte
	stop   context.CancelFunc
	err    error // of the decompressor, once chunks is closed

	buf, rest []byte
	sum       hash.Hash
	size      int64
}

// openStream starts to decompress a blob. close ends it at any point.
func openStream(ctx context.Context, open func(context.Context) (io.ReadCloser, error)) (*stream, error) {
	ctx, stop := context.WithCancel(ctx)
	blob, err := open(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	s := &stream{
		chunks: make(chan []byte, 4), free: make(chan []byte, 6), stop: stop, sum: sha256.New(),
	}
	for range cap(s.free) {
		s.free <- make([]byte, chunkSize)
	}
	in := bufio.NewReaderSize(blob, 64<<10)
	magic, err := in.Peek(4)
	s.kind = sniff(magic)
	go func() {
		defer close(s.chunks)
		if err == nil || errors.Is(err, io.EOF) {
			err = s.pump(ctx, in)
		}
		s.err = errors.Join(err, blob.Close())
	}()
	return s, nil
}

// compressionOf a layer's blob, as a registry has it.
func compressionOf(l Layer) compression {
	switch {
	case l.Digest == l.DiffID:
		return uncompressed
	case strings.HasSuffix(l.MediaType, "zstd"):
		return zstdCompressed
	}
	return gzipCompressed // also where the type says nothing: Docker's first
}

func sniff(magic []byte) compression {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzipCompressed
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(magic) == 4 && magic[0]&0xf0 == 0x50 &&
		bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18}):
		return zstdCompressed
	}
	return uncompressed
}

// pump decompresses to the very end of the blob, so that its reader can judge it.
func (s *stream) pump(ctx context.Context, in *bufio.Reader) error {
	plain, err := s.decompress(ctx, in)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// A blob that is not what the manifest says explains what else went wrong.
	if _, blobErr := io.Copy(io.Discard, in); blobErr != nil {
		return blobErr
	}
	if plain {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCompression, err)
}

// decompress says with an error whether it comes from the blob as it is.
func (s *stream) decompress(ctx context.Context, in *bufio.Reader) (plain bool, err error) {
	out := io.NopCloser(in)
	switch s.kind {
	case gzipCompressed:
		out, err = codec.NewGzipReader(in)
	case zstdCompressed:
		out, err = codec.NewZstdReader(in)
	}
	if err != nil {
		return false, err
	}
	defer out.Close()
	for {
		var chunk []byte
		select {
		case chunk = <-s.free:
		case <-ctx.Done():
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
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, in)
			return true, err
		}
		if err != nil {
			return s.kind == uncompressed, err
		}
	}
}

func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.buf != nil {
			s.free <- s.buf[:chunkSize]
			s.buf = nil
		}
		chunk, ok := <-s.chunks
		if !ok {
			if s.err != nil {
				return 0, s.err
			}
			return 0, io.EOF
		}
		s.buf, s.rest = chunk, chunk
		s.sum.Write(chunk)
		s.size += int64(len(chunk))
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// verify compares what was read to the end with the layer's diffID.
func (s *stream) verify(want digest.Digest) error {
	if got := digest.NewDigest(digest.SHA256, s.sum); got != want {
		return fmt.Errorf("%w: it is %s, the configuration says %s", ErrDiffID, got, want)
	}
	return nil
}

// explain finds out whether a layer cannot be read because it is not the layer
// that was asked for, which is then what there is to say.
func (s *stream) explain(ctx context.Context, err error, want digest.Digest) error {
	var errno syscall.Errno
	if ctx.Err() != nil || errors.As(err, &errno) { // the disk, not the layer
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

// close stops the decompressor and waits for it.
func (s *stream) close() {
	s.stop()
	for range s.chunks {
	}
}
