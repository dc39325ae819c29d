package download

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxDocument is how much of a response that is no blob is read before it is passed on, in bytes: the limit of the
// library for a manifest or a configuration, 4 MiB, and some.
const maxDocument = 5 << 20

// maxFault is how much is read of an answer that says why there is none, in bytes: the library keeps all of it, and
// shows it several times.
const maxFault = 64 << 10

// span is a part of a blob, from an offset to a larger one, in bytes.
type span struct{ from, to int64 }

// Answer is what a registry said to the requests of a context.
type Answer struct {
	// Status is that of the last answer.
	Status int
	// Ranged means that it was the range that was asked for, and not the whole blob.
	Ranged bool
}

type answerKey struct{}
type spanKey struct{}

// WithAnswer returns a context whose requests, one after the other, note what was answered.
func WithAnswer(ctx context.Context) (context.Context, *Answer) {
	a := &Answer{}
	return context.WithValue(ctx, answerKey{}, a), a
}

// WithRange returns a context whose request for a blob asks for a part of it, by the header Range. The library takes
// the part for the blob.
func WithRange(ctx context.Context, from, to int64) context.Context {
	return context.WithValue(ctx, spanKey{}, span{from, to})
}

// Transport makes requests again that fail, as long as its Patience lasts.
type Transport struct {
	Next     http.RoundTripper
	Patience *Patience
	// Most is how often one request is made; 0 for no limit.
	Most int
	// Files means that what a server sends is passed on as it comes, as a blob: its URLs are not those of a registry.
	Files bool
}

// Attempts is what Transport.Most is for a mirror behind which there is another place to ask.
const Attempts = attempts

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, host := req.Context(), t.Patience.Host(req.URL.Host)
	for n := 1; ; n++ {
		if err := host.Enter(ctx); err != nil {
			return nil, err
		}
		resp, err := t.once(req, host)
		failure := t.failure(req, resp, err)
		host.Leave(failure)
		if failure == nil {
			return resp, err
		}
		if resp != nil {
			_ = resp.Body.Close() // nothing was written to it
		}
		if err := host.Wait(ctx, failure, n, t.Most); err != nil {
			return nil, err
		}
	}
}

// CloseIdleConnections is for http.Client, which asks its transport for it.
func (t *Transport) CloseIdleConnections() {
	if next, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// failure returns why a request is made again; nil if it is not.
func (t *Transport) failure(req *http.Request, resp *http.Response, err error) *Failure {
	again := req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	switch {
	case !again || req.Context().Err() != nil:
		return nil
	case err != nil:
		return Failed(err)
	case !transient(resp.StatusCode):
		return nil
	}
	if !busy(resp.StatusCode) {
		return &Failure{Err: fmt.Errorf("%w: status %s", ErrFails, resp.Status)}
	}
	return &Failure{
		Err: fmt.Errorf("%w: status %s", ErrBusy, resp.Status), Busy: true, Asked: retryAfter(resp.Header, time.Now()),
	}
}

// once makes a request. Its answer takes no longer than a request may stall.
func (t *Transport) once(req *http.Request, host *Host) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	limit := t.Patience.Stall
	timer := time.AfterFunc(limit, func() { cancel(ErrStalled) })
	out := req.Clone(ctx)
	if req.GetBody != nil {
		var err error
		if out.Body, err = req.GetBody(); err != nil {
			cancel(nil)
			return nil, err
		}
	}
	origin := originOf(req)
	blob := origin.Method == http.MethodGet && (t.Files || strings.Contains(origin.URL.Path, "/blobs/"))
	part, ranged := ctx.Value(spanKey{}).(span)
	ranged = ranged && blob
	if ranged {
		out.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", part.from, part.to-1))
	}
	resp, err := t.Next.RoundTrip(out)
	timer.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrStalled) {
			err = fmt.Errorf("%w: %s has not answered within %v", ErrStalled, host.name, limit)
		}
		cancel(nil)
		return nil, err
	}
	answer, _ := ctx.Value(answerKey{}).(*Answer)
	if answer == nil {
		answer = &Answer{}
	}
	answer.Status, answer.Ranged = resp.StatusCode, false
	content := &body{ctx: ctx, cancel: cancel, limit: limit, host: host, body: resp.Body}
	resp.Body = content
	if resp.StatusCode >= http.StatusBadRequest {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(content, maxFault), content}
	}
	if !blob {
		return t.document(req, resp)
	}
	content.fast = t.Patience.Host(origin.URL.Host)
	if ranged && resp.StatusCode == http.StatusPartialContent {
		got := resp.Header.Get("Content-Range") // without it, the digest of the blob decides
		if got != "" && !strings.HasPrefix(got, fmt.Sprintf("bytes %d-", part.from)) {
			_ = resp.Body.Close() // nothing was written to it
			return nil, fmt.Errorf("the server answers a request for bytes from %d on with %q", part.from, got)
		}
		answer.Ranged = true
		resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
	}
	return resp, nil
}

// originOf returns the request that was redirected to this one.
func originOf(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// document reads a response that is no blob, so that it is requested again if the connection is lost in the middle.
func (t *Transport) document(req *http.Request, resp *http.Response) (*http.Response, error) {
	if req.Method == http.MethodHead {
		return resp, nil
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		_ = resp.Body.Close() // nothing was written to it
		return nil, err
	}
	if !strings.HasPrefix(req.URL.Path, "/v2/") && resp.StatusCode == http.StatusOK {
		content = withoutDate(content)
	}
	if !transient(resp.StatusCode) {
		t.Patience.Moved()
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(content), resp.Body), resp.Body}
	return resp, nil
}

// withoutDate removes from a token the time at which it was issued, by the server's clock: with one that is an hour
// slow, the library takes the token for expired, and asks for another one for each request (bearerToken in
// docker/docker_client.go). Without it, the token is issued when it comes.
func withoutDate(content []byte) []byte {
	var token map[string]json.RawMessage
	if json.Unmarshal(content, &token) != nil || token["issued_at"] == nil {
		return content
	}
	delete(token, "issued_at")
	shorter, err := json.Marshal(token)
	if err != nil {
		return content
	}
	return shorter
}
