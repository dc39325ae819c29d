package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/cache"
)

// connection is how a registry sends a blob: the first bytes at once, then one byte every pause. If
// end is not nil, it fails with end after total bytes.
type connection struct {
	first, total int
	pause        time.Duration
	end          error
}

// stream is the body of a response over a connection.
type stream struct {
	connection
	ctx  context.Context
	body []byte
	sent int
}

func (s *stream) Close() error { return nil }

func (s *stream) Read(p []byte) (int, error) {
	switch {
	case len(s.body) == 0:
		return 0, io.EOF
	case s.sent >= s.total && s.end != nil:
		return 0, s.end
	}
	n := s.first - s.sent
	if n <= 0 {
		n = 1
		select {
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		case <-time.After(s.pause): // in a bubble
		}
	}
	n = copy(p[:min(n, len(p))], s.body)
	s.body, s.sent = s.body[n:], s.sent+n
	return n, nil
}

// slowSource is a source of the library with one blob. All requests have the same kind of
// connection, or fail with refusal.
type slowSource struct {
	imgtypes.ImageSource
	connection
	content  []byte
	refusal  error
	requests int
}

var (
	errRefused    = errors.New("refused")
	errOverloaded = docker.UnexpectedHTTPStatusError{StatusCode: http.StatusServiceUnavailable}
)

func (s *slowSource) open(ctx context.Context, at uint64) (io.ReadCloser, error) {
	if s.requests++; s.requests > 100 {
		return nil, errors.New("more than 100 requests")
	}
	if s.refusal != nil {
		return nil, s.refusal
	}
	return &stream{connection: s.connection, ctx: ctx, body: s.content[at:]}, nil
}

func (s *slowSource) GetBlob(
	ctx context.Context, _ imgtypes.BlobInfo, _ imgtypes.BlobInfoCache,
) (io.ReadCloser, int64, error) {
	body, err := s.open(ctx, 0)
	return body, int64(len(s.content)), err
}

// rangeSource is a slowSource whose registry supports ranges. The method is the one of the
// library's BlobChunkAccessor, except for the chunk's type, which the library does not export.
type rangeSource struct{ *slowSource }

func (s rangeSource) GetBlobAt(
	ctx context.Context, _ imgtypes.BlobInfo, chunks []struct{ Offset, Length uint64 },
) (chan io.ReadCloser, chan error, error) {
	body, err := s.open(ctx, chunks[0].Offset)
	if err != nil {
		return nil, nil, err
	}
	streams, errs := make(chan io.ReadCloser), make(chan error)
	go func() {
		streams <- body
		close(streams)
		close(errs)
	}()
	return streams, errs, nil
}

const megabyte = 1 << 20

// The limit of attempts at a blob, without other delays than those of the connection. Bugs were
// that a registry that sent a few bytes before it reset the connection was asked for ever, and that
// the bytes of an earlier run, and the time to read them, counted for the rate of the registry.
func TestAttemptsAtABlob(t *testing.T) {
	proxy := connection{total: 12, pause: 5 * time.Second, end: io.ErrUnexpectedEOF}
	reset := func(bytes int) connection { return connection{first: bytes, total: bytes, end: syscall.ECONNRESET} }
	for name, test := range map[string]fetchTest{
		"complete": {connection: connection{first: 3 * megabyte}, requests: 1},
		"a byte, a reset": {
			connection: reset(1), requests: 3, err: syscall.ECONNRESET,
			text: "3 requests to HOST in 0s, 3 of 3145728 bytes fetched: connection reset",
		},
		"nothing, a reset": {connection: reset(0), requests: 3, err: syscall.ECONNRESET, text: " 0 of 3145728"},
		"slow, resets": {
			connection: proxy, requests: 3, took: 3 * time.Minute, err: io.ErrUnexpectedEOF,
			text: " in 3m0s, 36 of 3145728 bytes fetched: ",
		},
		"slow": {
			connection: connection{pause: 7 * time.Second}, requests: 3, took: 15 * time.Minute, err: ErrStalled,
			text: "registry cannot be used: connection stalled: 3 requests to HOST in 15m0s, 126 of 3145728 bytes fetched; " +
				"fewer than 16 bytes per second in the last 5m0s",
		},
		"resets every MiB":    {connection: reset(megabyte), requests: 3},
		"resets every 600 kB": {connection: reset(600_000), requests: 6},
		"resets every 300 kB": {connection: reset(300_000), requests: 3, err: syscall.ECONNRESET, text: " 900000 of"},
		"refuses":             {refusal: errRefused, requests: 1, err: errRefused},
		"overloaded": {
			refusal: errOverloaded, requests: 3, took: 5 * time.Second, err: errOverloaded, text: "3 requests to HOST in 5s, 0 of",
		},

		"no ranges, resets": {
			connection: reset(1000), noRanges: true, requests: 3, err: syscall.ECONNRESET, text: " 1000 of",
		},
		"no ranges, slow": {
			connection: connection{first: 1000, pause: 70 * time.Second}, noRanges: true, requests: 3,
			took: 15 * time.Minute, err: ErrStalled, text: " 1004 of",
		},

		"a third fetched earlier, slow, resets": {
			connection: proxy, fetched: megabyte, requests: 3, took: 3 * time.Minute, err: io.ErrUnexpectedEOF,
			text: " in 3m0s, 1048612 of 3145728 bytes fetched: ",
		},
		"a third fetched earlier, slow": {
			connection: connection{pause: time.Hour}, fetched: megabyte, requests: 3, took: 15 * time.Minute,
			err: ErrStalled, text: " in 15m0s, 1048576 of 3145728 bytes fetched",
		},
	} {
		t.Run(name, test.run)
	}
}

// fetchTest fetches a blob of 3 MiB.
type fetchTest struct {
	connection connection
	refusal    error
	noRanges   bool // the registry does not support ranges
	fetched    int  // bytes of an earlier run
	// requests is how many requests are made, took in what time.
	requests int
	took     time.Duration
	// err, with text in its message, is the error; nil for none.
	err  error
	text string
}

func (f fetchTest) run(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*megabyte/16)
	want := imgtypes.BlobInfo{Digest: digest.FromBytes(content), Size: int64(len(content))}
	part := partial(t, want.Digest, content[:f.fetched])
	synctest.Test(t, func(t *testing.T) {
		registry := &slowSource{connection: f.connection, content: content, refusal: f.refusal}
		src := &imageSource{ImageSource: rangeSource{registry}, wait: waiter{limit: 5 * time.Minute, host: "HOST"}}
		if f.noRanges {
			src.ImageSource = registry
		}
		r := src.resume(t.Context(), want, part)
		defer r.Close()
		got := make([]byte, f.fetched)
		if _, err := io.ReadFull(r, got); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		start := time.Now()
		rest, err := io.ReadAll(r)
		if !errors.Is(err, f.err) || errors.Is(err, ErrStalled) && !errors.Is(err, ErrRegistry) ||
			f.err != nil && !strings.Contains(err.Error(), f.text) {
			t.Errorf("got error %v, want %v with %q", err, f.err, f.text)
		}
		if took := time.Since(start); registry.requests != f.requests || took != f.took {
			t.Errorf("got %d requests in %v, want %d in %v", registry.requests, took, f.requests, f.took)
		}
		if got = append(got, rest...); !bytes.HasPrefix(content, got) || err == nil && len(got) != len(content) {
			t.Errorf("got %d bytes that differ from the blob or end early, want a prefix, or with error nil all of %d bytes",
				len(got), len(content))
		}
	})
}

// partial returns a cache's file with the beginning of a blob.
func partial(t *testing.T, blob digest.Digest, beginning []byte) *cache.Partial {
	t.Helper()
	blobs, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	part, err := blobs.Partial(blob)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { part.Close() })
	if _, err := part.Write(beginning); err != nil {
		t.Fatal(err)
	}
	return part
}
