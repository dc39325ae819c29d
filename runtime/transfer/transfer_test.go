package transfer_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/transfer"
)

// broken returns an error for every read and write.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error)  { return 0, b.err }
func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestCopy(t *testing.T) {
	content := bytes.Repeat([]byte("pinbox"), 1<<20) // more than one chunk
	size, sum := int64(len(content)), digest.FromBytes(content)
	fault := errors.New("fault")
	for name, c := range map[string]struct {
		from io.Reader
		to   io.Writer
		size int64
		sum  digest.Digest
		want error
	}{
		"complete":         {bytes.NewReader(content), io.Discard, size, sum, nil},
		"unknown digest":   {bytes.NewReader(content), io.Discard, size, "", nil},
		"nothing":          {bytes.NewReader(nil), io.Discard, 0, digest.FromBytes(nil), nil},
		"more than wanted": {bytes.NewReader(content), io.Discard, size - 1, digest.FromBytes(content[:size-1]), nil},
		"too short":        {bytes.NewReader(content), io.Discard, size + 1, sum, transfer.ErrRead},
		"digest of more":   {bytes.NewReader(content), io.Discard, size - 1, sum, transfer.ErrDigest},
		"another content":  {bytes.NewReader(content), io.Discard, size, digest.FromBytes(nil), transfer.ErrDigest},
		"broken source":    {broken{fault}, io.Discard, size, sum, fault},
		"full disk":        {bytes.NewReader(content), broken{fault}, size, sum, fault},
	} {
		t.Run(name, func(t *testing.T) {
			last := int64(0)
			got, err := transfer.Copy(t.Context(), c.to, c.from, transfer.Content{Size: c.size, Digest: c.sum}, func(n int64) {
				last = n
			})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if want := cmp.Or(c.sum, sum); c.want == nil && got != want {
				t.Errorf("got the digest %s, want %s", got, want)
			}
			if c.want == nil && last != c.size {
				t.Errorf("got %d bytes done, want %d", last, c.size)
			}
			if errors.Is(err, transfer.ErrRead) && c.to != io.Discard {
				t.Errorf("got %v, want no ErrRead, as the destination fails", err)
			}
		})
	}
}

func TestCopyCopies(t *testing.T) {
	content := bytes.Repeat([]byte("pinbox"), 1<<20)
	var to bytes.Buffer
	want := transfer.Content{Size: int64(len(content)), Digest: digest.FromBytes(content)}
	if _, err := transfer.Copy(t.Context(), &to, bytes.NewReader(content), want, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(to.Bytes(), content) {
		t.Errorf("got %d bytes that differ, want the %d of the source", to.Len(), len(content))
	}
}

func TestCopyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	content := make([]byte, 9<<20)
	chunks := 0
	_, err := transfer.Copy(ctx, io.Discard, bytes.NewReader(content), transfer.Content{Size: 9 << 20}, func(int64) {
		chunks++
		cancel()
	})
	if !errors.Is(err, context.Canceled) || chunks != 1 {
		t.Errorf("got %v after %d chunks, want the end of the context after 1", err, chunks)
	}
}

// The next part is read while one is written, but none after that.
func TestCopyReadsAhead(t *testing.T) {
	content := make([]byte, 9<<20)
	from := &counter{Reader: bytes.NewReader(content), news: make(chan struct{}, 1)}
	written, most := int64(0), int64(0)
	to := writer(func(p []byte) (int, error) {
		end := written + int64(len(p))
		for from.read.Load() < min(end+1, int64(len(content))) {
			<-from.news // or the test is stuck: nothing is read while this is written
		}
		most = max(most, from.read.Load()-written)
		written = end
		return len(p), nil
	})
	if _, err := transfer.Copy(t.Context(), to, from, transfer.Content{Size: int64(len(content))}, nil); err != nil {
		t.Fatal(err)
	}
	if most > 4<<20 {
		t.Errorf("got %d bytes that are read and not written, want 4 MiB at most", most)
	}
}

// counter counts what was read.
type counter struct {
	io.Reader
	read atomic.Int64
	news chan struct{} // has a value after a read
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	select {
	case c.news <- struct{}{}:
	default:
	}
	return n, err
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
