package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"github.com/pinbox/pinbox/storage/download"
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

// slowRegistry has one blob. All requests have the same kind of connection, or are refused with a status.
type slowRegistry struct {
	connection
	content  []byte
	noRanges bool
	refusal  int // 0 for none
	requests int
}

// RoundTrip implements http.RoundTripper.
func (s *slowRegistry) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.requests++; s.requests > 100 {
		return nil, errors.New("more than 100 requests")
	}
	answer := func(status int, body io.ReadCloser) *http.Response {
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: body, Request: req}
	}
	if s.refusal != 0 {
		return answer(s.refusal, http.NoBody), nil
	}
	var from int
	if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-", &from); err != nil || s.noRanges {
		return answer(http.StatusOK, &stream{connection: s.connection, ctx: req.Context(), body: s.content}), nil
	}
	resp := answer(http.StatusPartialContent, &stream{connection: s.connection, ctx: req.Context(), body: s.content[from:]})
	resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(s.content)-1, len(s.content)))
	return resp, nil
}

// slowSource is a source of the library whose requests are those of a transport.
type slowSource struct {
	imgtypes.ImageSource
	transport http.RoundTripper
}

// GetBlob implements types.ImageSource.
func (s slowSource) GetBlob(
	ctx context.Context, want imgtypes.BlobInfo, _ imgtypes.BlobInfoCache,
) (io.ReadCloser, int64, error) {
	url := "http://HOST/v2/app/blobs/" + want.Digest.String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	resp, err := s.transport.RoundTrip(req)
	switch {
	case err != nil:
		return nil, 0, err
	case resp.StatusCode != http.StatusOK:
		return nil, 0, errors.Join(docker.UnexpectedHTTPStatusError{StatusCode: resp.StatusCode}, resp.Body.Close())
	}
	return resp.Body, -1, nil // as with a body that has no length
}

const megabyte = 1 << 20

// A blob is requested until nothing of it has arrived for the time in which a request may stall: five minutes here.
// Bugs were that a registry that sent a few bytes before it reset the connection was asked for ever, that three
// resets ended a build, and that the bytes of an earlier run, and the time to read them, counted for the rate of the
// registry.
func TestPatienceWithABlob(t *testing.T) {
	const minutes = 60
	proxy := connection{total: 12, pause: 5 * time.Second, end: io.ErrUnexpectedEOF}
	reset := func(bytes int) connection { return connection{first: bytes, total: bytes, end: syscall.ECONNRESET} }
	for name, test := range map[string]fetchTest{
		"complete": {connection: connection{first: 3 * megabyte}, requests: 1},
		"a byte, a reset": {
			connection: reset(1), requests: 24, took: 5 * minutes, text: " of 3145728 bytes fetched: it was asked for 5m0s",
		},
		"nothing, a reset": {connection: reset(0), requests: 24, took: 5 * minutes, text: " 0 of 3145728"},
		"slow, resets":     {connection: proxy, requests: 6, took: 6 * minutes, text: " 72 of 3145728 bytes fetched: "},
		"slow": {
			connection: connection{pause: 7 * time.Second}, requests: 2, took: 10 * minutes, err: ErrStalled,
			text: "connection stalled: HOST sends fewer than 16 bytes per second, for 5m0s",
		},
		"resets every MiB":    {connection: reset(megabyte), requests: 3, took: 2},
		"resets every 300 kB": {connection: reset(300_000), requests: 11, took: 10},
		"refuses":             {refusal: http.StatusNotFound, requests: 1, err: ErrNotFound, text: "registry does not have it"},
		"overloaded": {
			refusal: http.StatusServiceUnavailable, requests: 24, took: 5 * minutes, err: download.ErrBusy, text: "Service Unavailable",
		},
		"ends early, always": {connection: connection{total: 1000, first: 1000, end: io.EOF}, noRanges: true, requests: 3, took: 3,
			err: download.ErrFails, text: "the answer ends after 1000 of 3145728 bytes"},

		"no ranges, resets": {
			connection: reset(1000), noRanges: true, requests: 24, took: 5 * minutes, text: " 1000 of",
		},
		"no ranges, slow": {
			connection: connection{first: 1000, pause: 70 * time.Second}, noRanges: true, requests: 2,
			took: 10 * minutes, err: ErrStalled, text: " of",
		},

		"a third fetched earlier, resets": {
			connection: reset(0), fetched: megabyte, requests: 24, took: 5 * minutes, text: ", 1048576 of 3145728 bytes fetched: ",
		},
		"a third fetched earlier, slow": {
			connection: connection{pause: time.Hour}, fetched: megabyte, requests: 2, took: 10 * minutes,
			err: ErrStalled, text: ", 1048576 of 3145728 bytes fetched",
		},
	} {
		t.Run(name, test.run)
	}
}

// fetchTest fetches a blob of 3 MiB.
type fetchTest struct {
	connection connection
	refusal    int
	noRanges   bool // the registry does not support ranges
	fetched    int  // bytes of an earlier run
	// requests is about how many requests are made, and took in about how many seconds: waits have a random part.
	requests, took int
	// err and text are of the error; without text there is none.
	err  error
	text string
}

func (f fetchTest) run(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*megabyte/16)
	want := imgtypes.BlobInfo{Digest: digest.FromBytes(content), Size: int64(len(content))}
	part := partial(t, want.Digest, content[:f.fetched])
	synctest.Test(t, func(t *testing.T) {
		registry := &slowRegistry{connection: f.connection, content: content, refusal: f.refusal, noRanges: f.noRanges}
		patience := download.NewPatience(5*time.Minute, nil)
		from := &sources{patience: patience, say: func(string) {}}
		host := patience.Host("HOST")
		at := &place{from: from, host: "HOST", last: true, shared: &remote{
			host: host, src: slowSource{transport: &download.Transport{Next: registry, Patience: patience}},
		}}
		at.shared.acquire()
		src := &imageSource{explain: classify, from: from, repository: &repository{places: []*place{at}}}
		r := src.resume(t.Context(), want, part)
		defer r.Close()
		got := make([]byte, f.fetched)
		if _, err := io.ReadFull(r, got); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		start := time.Now()
		rest, err := io.ReadAll(r)
		if f.err != nil && !errors.Is(err, f.err) || (err != nil) != (f.text != "") ||
			err != nil && !strings.Contains(err.Error(), f.text) {
			t.Errorf("got error %v, want %v with %q", err, f.err, f.text)
		}
		took := int(time.Since(start).Seconds())
		if farFrom(registry.requests, f.requests) || farFrom(took, f.took) {
			t.Errorf("got %d requests in %d s, want about %d in %d s", registry.requests, took, f.requests, f.took)
		}
		if got = append(got, rest...); !bytes.HasPrefix(content, got) || err == nil && len(got) != len(content) {
			t.Errorf("got %d bytes that differ from the blob or end early, want a prefix, or with error nil all of %d bytes",
				len(got), len(content))
		}
	})
}

// farFrom reports whether a number is not about another one.
func farFrom(got, want int) bool { return got < want-1-want/6 || got > want+1+want/6 }

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
