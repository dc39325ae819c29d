package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

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

// Copy copies the content and returns its digest. The next part is read while one is hashed and written. The error is
// ErrRead if the source ends early or cannot be read, and ErrDigest if all was copied and has another digest. done is
// called with the bytes that were copied so far; nil is fine. No read is left when Copy returns.
func Copy(
	ctx context.Context, to io.Writer, from io.Reader, want Content, done func(bytes int64),
) (digest.Digest, error) {
	parts := readAhead(from, want.Size)
	defer parts.stop()
	sum := digest.SHA256.Digester()
	to = fanout.Writer(to, sum.Hash())
	for copied := int64(0); copied < want.Size; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		p := <-parts.next
		if p.err != nil {
			return "", fmt.Errorf("%w: after %d of %d bytes: %w", ErrRead, copied+int64(len(p.content)), want.Size, p.err)
		}
		if _, err := to.Write(p.content); err != nil {
			return "", err
		}
		copied += int64(len(p.content))
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
