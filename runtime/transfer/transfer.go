package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fanout"
)

// Errors of the content that is read. Errors of the destination and of the context are returned
// unchanged.
var (
	ErrRead   = errors.New("the content cannot be read")
	ErrDigest = errors.New("the content differs")
)

// Content identifies the bytes that are expected.
type Content struct {
	// Size in bytes.
	Size int64
	// Digest is a SHA-256; "" if it is unknown.
	Digest digest.Digest
}

// chunk is how many bytes are read at once.
const chunk = 2 << 20

// Copy copies the content and returns its digest. The next part is read while one is hashed and written. The error is
// ErrRead if the source ends early or cannot be read, and ErrDigest if all was copied and has another digest. done is
// called with the bytes that were copied so far; nil is fine. No read is left when Copy returns.
func Copy(
	ctx context.Context, to io.Writer, from io.Reader, want Content, done func(bytes int64),
) (digest.Digest, error) {
	sum := digest.SHA256.Digester()
	to = fanout.Writer(to, sum.Hash())
	now, next := make([]byte, min(chunk, want.Size)), make([]byte, min(chunk, want.Size))
	var reading sync.WaitGroup
	defer reading.Wait()
	var n int // bytes that were read to next
	var err error
	read := func(size int64) {
		reading.Go(func() { n, err = io.ReadFull(from, next[:min(chunk, size)]) })
	}
	read(want.Size)
	for copied := int64(0); copied < want.Size; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		reading.Wait()
		if err != nil {
			return "", fmt.Errorf("%w: after %d of %d bytes: %w", ErrRead, copied+int64(n), want.Size, err)
		}
		part := next[:n]
		copied += int64(n)
		now, next = next, now
		read(want.Size - copied)
		if _, err := to.Write(part); err != nil {
			return "", err
		}
		if done != nil {
			done(copied)
		}
	}
	got := sum.Digest()
	if want.Digest != "" && got != want.Digest {
		return "", fmt.Errorf("%w: it has SHA-256 %s, not %s", ErrDigest, got.Encoded(), want.Digest.Encoded())
	}
	return got, nil
}
