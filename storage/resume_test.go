package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/cache"
)

// connection of a registry: it sends first bytes at once and then one every pause, and
// ends after so many in all.
type connection struct {
	first, all int
	pause      time.Duration
	end        error // nil if all of the blob was to come
}

// stream is a body that comes over a connection.
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
	case s.sent >= s.all && s.end != nil:
		return 0, s.end
	}
	n := s.first - s.sent
	if n <= 0 {
		n = 1
		select {
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		case <-time.After(s.pause):
		}
	}
	n = copy(p[:min(n, len(p))], s.body)
	s.body, s.sent = s.body[n:], s.sent+n
	return n, nil
}

// drips is a source of the library whose registry serves one blob, over the same kind of
// connection each time, or refuses.
type drips struct {
	imgtypes.ImageSource
	connection
	content []byte
	refusal error
	asked   int
}

var errRefused = errors.New("refused")

func (d *drips) from(ctx context.Context, at uint64) (io.ReadCloser, error) {
	if d.asked++; d.asked > 100 {
		return nil, errors.New("it is asked for ever")
	}
	if d.refusal != nil {
		return nil, d.refusal
	}
	return &stream{connection: d.connection, ctx: ctx, body: d.content[at:]}, nil
}

func (d *drips) GetBlob(
	ctx context.Context, _ imgtypes.BlobInfo, _ imgtypes.BlobInfoCache,
) (io.ReadCloser, int64, error) {
	body, err := d.from(ctx, 0)
	return body, int64(len(d.content)), err
}

// ranged is one that knows ranges; its method is the library's but for the chunk's name.
type ranged struct{ *drips }

func (r ranged) GetBlobAt(
	ctx context.Context, _ imgtypes.BlobInfo, chunks []struct{ Offset, Length uint64 },
) (chan io.ReadCloser, chan error, error) {
	body, err := r.from(ctx, chunks[0].Offset)
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

// A registry that dripped and then reset the connection, as a proxy does after a time, was
// asked for ever. Attempts that fail are counted, whatever they fail with, until a MiB has
// come. And what an earlier run had left counted as sent by the registry, and reading it as
// waiting for that. The clock is exact.
func TestAttemptsAtABlob(t *testing.T) {
	proxy := connection{all: 12, pause: 5 * time.Second, end: io.ErrUnexpectedEOF}
	reset := func(bytes int) connection { return connection{first: bytes, all: bytes, end: syscall.ECONNRESET} }
	for name, test := range map[string]fetching{
		"all comes": {connection: connection{first: 3 * megabyte}, asked: 1},
		"a byte, a reset": {
			connection: reset(1), asked: 3, err: syscall.ECONNRESET,
			says: "HOST was asked 3 times, and 3 of 3145728 bytes are here after 0s: connection reset",
		},
		"nothing, a reset": {connection: reset(0), asked: 3, err: syscall.ECONNRESET, says: " 0 of 3145728"},
		"drips, resets": {
			connection: proxy, asked: 3, took: 3 * time.Minute, err: io.ErrUnexpectedEOF,
			says: " 36 of 3145728 bytes are here after 3m0s: ",
		},
		"drips": {
			connection: connection{pause: 7 * time.Second}, asked: 3, took: 15 * time.Minute, err: ErrStalled,
			says: "registry cannot be used: it stalls: HOST was asked 3 times, and 126 of 3145728 bytes are here after 15m0s; " +
				"fewer than 16 a second came in the last 5m0s",
		},
		"resets every MiB":    {connection: reset(megabyte), asked: 3},
		"resets every 600 kB": {connection: reset(600_000), asked: 6},
		"resets every 300 kB": {connection: reset(300_000), asked: 3, err: syscall.ECONNRESET, says: " 900000 of"},
		"refuses":             {refusal: errRefused, asked: 1, err: errRefused},

		"no ranges, resets": {connection: reset(1000), rangeless: true, asked: 3, err: syscall.ECONNRESET, says: " 1000 of"},
		"no ranges, drips": {
			connection: connection{first: 1000, pause: 70 * time.Second}, rangeless: true, asked: 3, took: 15 * time.Minute,
			err: ErrStalled, says: " 1004 of",
		},

		"half is there, drips, resets": {
			connection: proxy, kept: megabyte, asked: 3, took: 3 * time.Minute, err: io.ErrUnexpectedEOF,
			says: " 1048612 of 3145728 bytes are here after 3m0s: ",
		},
		"half is there, drips": {
			connection: connection{pause: time.Hour}, kept: megabyte, asked: 3, took: 15 * time.Minute, err: ErrStalled,
			says: " 1048576 of 3145728 bytes are here after 15m0s",
		},
	} {
		t.Run(name, test.run)
	}
}

// fetching is how a blob of 3 MiB is fetched.
type fetching struct {
	connection connection
	refusal    error
	rangeless  bool
	kept       int // bytes of an earlier run
	// What comes of it.
	asked int
	took  time.Duration
	err   error
	says  string
}

func (f fetching) run(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*megabyte/16)
	want := imgtypes.BlobInfo{Digest: digest.FromBytes(content), Size: int64(len(content))}
	part := keep(t, want.Digest, content[:f.kept])
	synctest.Test(t, func(t *testing.T) {
		registry := &drips{connection: f.connection, content: content, refusal: f.refusal}
		src := &imageSource{ImageSource: ranged{registry}, wait: waiter{limit: 5 * time.Minute, host: "HOST"}}
		if f.rangeless {
			src.ImageSource = registry
		}
		r := src.resume(t.Context(), want, part)
		defer r.Close()
		got := make([]byte, f.kept)
		if _, err := io.ReadFull(r, got); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		start := time.Now()
		rest, err := io.ReadAll(r)
		if !errors.Is(err, f.err) || errors.Is(err, ErrStalled) && !errors.Is(err, ErrRegistry) ||
			f.err != nil && !strings.Contains(err.Error(), f.says) {
			t.Errorf("%v, not %v with %q", err, f.err, f.says)
		}
		if took := time.Since(start); registry.asked != f.asked || took != f.took {
			t.Errorf("asked %d times in %v, not %d times in %v", registry.asked, took, f.asked, f.took)
		}
		if got = append(got, rest...); !bytes.HasPrefix(content, got) || err == nil && len(got) != len(content) {
			t.Errorf("%d of %d bytes, or others", len(got), len(content))
		}
	})
}

// keep has a blob's beginning as an earlier run leaves it.
func keep(t *testing.T, blob digest.Digest, begin []byte) *cache.Partial {
	t.Helper()
	kept, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	part, err := kept.Partial(blob)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { part.Close() })
	if _, err := part.Write(begin); err != nil {
		t.Fatal(err)
	}
	return part
}
