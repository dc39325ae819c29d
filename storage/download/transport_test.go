package download

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// answers are what a server says to one request after the other; the last one is for all later requests.
type answers struct {
	all   []any // an error, or a status and, behind a space, its Retry-After
	asked []time.Time
	sent  []*http.Request
	body  string
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	a.asked, a.sent = append(a.asked, time.Now()), append(a.sent, req)
	switch answer := a.all[min(len(a.asked), len(a.all))-1].(type) {
	case error:
		return nil, answer
	case string:
		var status, after int
		_, _ = fmt.Sscan(answer, &status, &after) // either may be missing
		resp := &http.Response{
			StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Request: req,
			Body: io.NopCloser(strings.NewReader(a.body)),
		}
		if after > 0 {
			resp.Header.Set("Retry-After", fmt.Sprint(after))
		}
		return resp, nil
	}
	<-req.Context().Done() // no answer
	return nil, req.Context().Err()
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// A request is made again until nothing has moved for the limit, five minutes here; what the registry asks for does not
// count. One that is refused is not made again. A host that has never answered is asked three times.
func TestRequestsThatAreMadeAgain(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, test := range map[string]struct {
		all      []any
		most     int
		requests int
		took     time.Duration // about
		err      error         // nil for an answer
		busy     bool
	}{
		"an answer":                    {[]any{"200"}, 0, 1, 0, nil, false},
		"refused":                      {[]any{"404"}, 0, 1, 0, nil, false},
		"500, once":                    {[]any{"500", "200"}, 0, 2, time.Second, nil, false},
		"503, twice":                   {[]any{"503", "503", "200"}, 0, 3, 3 * time.Second, nil, false},
		"a reset":                      {[]any{syscall.ECONNRESET, "200"}, 0, 2, time.Second, nil, false},
		"closed before an answer":      {[]any{"503", io.EOF}, 0, 24, testLimit, io.ErrUnexpectedEOF, false},
		"no answer, once":              {[]any{nil, "200"}, 0, 2, testLimit + time.Second, nil, false},
		"no answer":                    {[]any{nil}, 0, 2, 2 * testLimit, ErrStalled, false},
		"503 for ever":                 {[]any{"503"}, 0, 24, testLimit, ErrBusy, false},
		"500 for ever":                 {[]any{"500"}, 0, 24, testLimit, ErrFails, false},
		"500 of a mirror":              {[]any{"500"}, 3, 3, 3 * time.Second, ErrFails, false},
		"429 with a time":              {[]any{"429 100", "429 100", "429 100", "429 100", "200"}, 0, 5, 400 * time.Second, nil, true},
		"429 for ever, with a time":    {[]any{"429 60"}, 0, 31, 31 * time.Minute, ErrBusy, true},
		"nothing listens":              {[]any{refused}, 0, 3, 3 * time.Second, syscall.ECONNREFUSED, false},
		"nothing listens any more":     {[]any{"503", refused}, 0, 24, testLimit, syscall.ECONNREFUSED, false},
		"a certificate is not trusted": {[]any{errors.New("tls: failed to verify certificate")}, 0, 1, 0, errors.New(""), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said []string
				server := &answers{all: test.all}
				tr := &Transport{
					Next: server, Most: test.most, Patience: NewPatience(testLimit, func(s string) { said = append(said, s) }),
				}
				start := time.Now()
				resp, err := tr.RoundTrip(get(t, "https://HOST/v2/app/manifests/1"))
				if err == nil {
					resp.Body.Close()
				}
				if test.err == nil && err != nil || test.err != nil && (err == nil || test.err.Error() != "" && !errors.Is(err, test.err)) {
					t.Errorf("got %v, want %v", err, test.err)
				}
				if errors.Is(err, io.EOF) {
					t.Errorf("got %v, which a reader takes for the end of a blob", err)
				}
				took := time.Since(start)
				if n := len(server.asked); n < test.requests-3 || n > test.requests+3 || test.requests < 6 && n != test.requests ||
					took < test.took*4/5 || took > test.took*5/4 {
					t.Errorf("got %d requests in %v, want about %d in %v", n, took, test.requests, test.took)
				}
				if want := len(server.asked) - 1; len(said) < want-1 || len(said) > want {
					t.Errorf("got %d lines, want one for each of %d waits: %q", len(said), want, said)
				}
			})
		})
	}
}

// A host that says that it is busy gets fewer requests at a time, waits as long as it asks for, and gets more again
// with its answers.
func TestHostThatIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewPatience(testLimit, nil).Host("HOST")
		for range 8 {
			if err := h.Enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			h.Leave(&Failure{Busy: true, Asked: 10 * time.Second})
		}
		start, entered := time.Now(), make(chan time.Duration)
		go func() {
			_ = h.Enter(t.Context()) // it has no end
			entered <- time.Since(start)
		}()
		time.Sleep(time.Minute) // three are open, and no more are admitted
		h.Leave(nil)
		if got := <-entered; got != time.Minute {
			t.Errorf("a fourth request was made after %v, want 1m0s", got)
		}
		h.Leave(nil)
		h.Leave(nil)
		if h.limit != 4 {
			t.Errorf("got a limit of %d after three answers, want 4", h.limit)
		}
	})
}

// A host gets its requests at even distances, and none for a time in which it was asked for none.
func TestRequestsPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPatience(testLimit, nil)
		p.PerSecond = 4
		h, start := p.Host("HOST"), time.Now()
		for i, want := range []time.Duration{0, 250, 500, 5000, 5250} {
			if i == 3 {
				time.Sleep(time.Until(start.Add(5 * time.Second)))
			}
			if err := h.Enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != want*time.Millisecond {
				t.Errorf("request %d: got it after %v, want %v", i, got, want*time.Millisecond)
			}
		}
	})
}

// What arrives anywhere renews the patience with all requests.
func TestPatienceIsThatOfTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPatience(testLimit, nil)
		f := &Failure{}
		for _, step := range []struct {
			after time.Duration
			moved bool
			ended bool
		}{{0, false, false}, {4 * time.Minute, false, false}, {time.Hour, true, false}, {4 * time.Minute, false, false}, {time.Minute, false, true}} {
			time.Sleep(step.after)
			if step.moved {
				p.Moved()
			}
			if _, ended := p.left(f); ended != step.ended {
				t.Errorf("after %v: got an end %v, want %v", step.after, ended, step.ended)
			}
		}
	})
}

// The part of a blob is asked for in the header; a server without ranges answers with the whole blob, which is noted.
// What is asked of others on the way, as of a server of tokens, has no range.
func TestRangeOfABlob(t *testing.T) {
	for name, test := range map[string]struct {
		url, answer, contentRange string
		header                    string
		ranged, failed            bool
	}{
		"a part":             {"/v2/app/blobs/sha256:1", "206", "bytes 3-9/20", "bytes=3-9", true, false},
		"no ranges":          {"/v2/app/blobs/sha256:1", "200", "", "bytes=3-9", false, false},
		"another part":       {"/v2/app/blobs/sha256:1", "206", "bytes 0-9/20", "bytes=3-9", false, true},
		"a server of tokens": {"/token", "200", "", "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := &answers{all: []any{test.answer}, body: "body"}
			tr := &Transport{Next: roundTrip(func(req *http.Request) (*http.Response, error) {
				resp, err := server.RoundTrip(req)
				if err == nil && test.contentRange != "" {
					resp.Header.Set("Content-Range", test.contentRange)
				}
				return resp, err
			}), Patience: NewPatience(testLimit, nil)}
			req := get(t, "https://HOST"+test.url)
			ctx, answer := WithAnswer(WithRange(req.Context(), 3, 10))
			resp, err := tr.RoundTrip(req.WithContext(ctx))
			if (err != nil) != test.failed {
				t.Fatalf("got %v, want an error: %v", err, test.failed)
			}
			if got := server.sent[0].Header.Get("Range"); got != test.header || answer.Ranged != test.ranged {
				t.Errorf("got the header %q, ranged %v; want %q, %v", got, answer.Ranged, test.header, test.ranged)
			}
			if err == nil && resp.StatusCode != http.StatusOK {
				t.Errorf("got the status %d, want 200, as for a blob", resp.StatusCode)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A token is valid from when it comes on: a bug was that with a server whose clock is slow, each request got its own.
func TestTokensHaveNoDate(t *testing.T) {
	for body, want := range map[string]string{
		`{"token":"a","issued_at":"2020-01-01T00:00:00Z","expires_in":300}`: `{"expires_in":300,"token":"a"}`,
		`{"token": "a"}`: `{"token": "a"}`,
		`no JSON`:        `no JSON`,
	} {
		tr := &Transport{Next: &answers{all: []any{"200"}, body: body}, Patience: NewPatience(testLimit, nil)}
		resp, err := tr.RoundTrip(get(t, "https://HOST/token"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil || string(got) != want {
			t.Errorf("got %s and %v, want %s", got, err, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "soon": 0, "Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:00:05 GMT": 0, "99999999999999999999": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// An answer that is no blob is cut, whatever it is for: the library reads all of it.
func TestFaultsAreCut(t *testing.T) {
	for _, path := range []string{"/v2/app/blobs/sha256:1", "/v2/app/manifests/1"} {
		server := &answers{all: []any{"404"}, body: strings.Repeat("x", 10*maxFault)}
		tr := &Transport{Next: server, Patience: NewPatience(testLimit, nil)}
		resp, err := tr.RoundTrip(get(t, "https://HOST"+path))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(resp.Body)
		if len(content) != maxFault || err != nil {
			t.Errorf("%s: got %d bytes, %v, want %d", path, len(content), err, maxFault)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
