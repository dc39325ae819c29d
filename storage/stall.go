package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
)

// DefaultStallTimeout is the default of Access.StallTimeout, and the same as in pinbox-node
// (runtime.Options). A registry that first fetches a blob from another one may take minutes before
// it sends the first byte.
const DefaultStallTimeout = 5 * time.Minute

const (
	// minRate is the lowest rate of a blob, in bytes per second. A satellite link of 1 KB/s gives
	// 32 to each layer that is fetched at the same time; a proxy that keeps a connection open with a
	// byte every five seconds sends 0.2.
	minRate = 16
	// attempts is the limit of requests for a document, and for a blob without progress.
	attempts = 3
)

// waiter limits how long a registry may take, and repeats requests. The zero value has no limit: it
// is for images on this machine. The library has no limit (http.Client in docker_client.go).
type waiter struct {
	limit time.Duration
	// host, and name of an image, are for messages.
	host, name string
	// retrying is Access.Retrying; it may be nil.
	retrying func(string)
	rate     *rate // of host; nil if it does not matter
}

// waiter returns the waiter for an image of a repository; name is the name that is requested.
func (s *sources) waiter(repository, name string) waiter {
	host, _, _ := strings.Cut(repository, "/")
	// The library does not report which of them it has used.
	if r, err := sysregistriesv2.FindRegistry(s.sys, repository); err == nil && r != nil && len(r.Mirrors) > 0 {
		host += " or a mirror of it"
	}
	return waiter{s.stallTimeout, host, name, s.retrying, s.rateOf(host)}
}

// retry reports that a request is repeated after failed attempts; err is the error of the last one.
func (w waiter) retry(what string, failed int, err error) {
	if w.retrying != nil {
		w.retrying(fmt.Sprintf("%s: retrying %s (%d of %d): %v", what, w.host, failed+1, attempts, err))
	}
}

// overloaded reports whether an error is a status by which a registry, or a proxy in front of it, says
// that it cannot answer now. The library repeats a request only for 429 (Too Many Requests), when
// Retry-After says, and does not pass that header on.
func overloaded(err error) bool {
	var unexpected docker.UnexpectedHTTPStatusError
	if !errors.As(err, &unexpected) {
		return false
	}
	switch unexpected.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// pause waits before a request is repeated that a registry could not answer: a second, then four.
func pause(ctx context.Context, failed int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second << (2 * (failed - 1))):
	}
}

// request calls do, which requests a document. The library returns a document only when it is
// complete, so request cannot measure its rate: it limits the time of each call, and repeats a call
// that takes longer, or that an overloaded registry refuses.
func (w waiter) request(ctx context.Context, do func(context.Context) error) error {
	if w.limit == 0 {
		return do(ctx)
	}
	for failed := 1; ; failed++ {
		limited, cancel := context.WithTimeout(ctx, w.limit)
		err := do(limited)
		late := limited.Err() != nil
		cancel()
		switch busy := overloaded(err); {
		case err == nil || !late && !busy || ctx.Err() != nil || busy && failed == attempts:
			return err
		case failed == attempts:
			return w.stalled()
		case busy:
			w.retry(w.name, failed, err)
			pause(ctx, failed)
		default:
			w.retry(w.name, failed, ErrStalled)
		}
	}
}

func (w waiter) stalled() error {
	return fmt.Errorf("%w: %w: %d requests to %s had no answer within %v", ErrRegistry, ErrStalled, attempts, w.host,
		w.limit)
}

// blobStream is the body of a response with a blob. Read fails with ErrStalled if fewer bytes than
// minRate arrive per second; only the time in which a reader waits is measured.
type blobStream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration
	rate   *rate
	timer  *time.Timer
	body   io.ReadCloser
	// received bytes arrived while the reader waited, in the present period of limit.
	received int64
	waited   time.Duration
}

// open opens a blob. The context that it passes to the function open ends with the stream.
func (w waiter) open(
	ctx context.Context, open func(context.Context) (io.ReadCloser, error),
) (_ *blobStream, err error) {
	s := &blobStream{limit: w.limit, rate: w.rate}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.timer = time.AfterFunc(w.limit, func() { s.cancel(ErrStalled) })
	_, err = s.wait(func() (_ int, err error) {
		s.body, err = open(s.ctx)
		return 0, err
	})
	if err != nil {
		s.cancel(nil)
		if errors.Is(err, io.EOF) { // of the connection; a reader would take it for the end of the blob
			err = fmt.Errorf("%w: %v", io.ErrUnexpectedEOF, err) //nolint:errorlint // no EOF
		}
		return nil, err
	}
	return s, nil
}

func (s *blobStream) Read(p []byte) (int, error) {
	s.timer.Reset(s.limit - s.waited)
	start := time.Now()
	n, err := s.wait(func() (int, error) { return s.body.Read(p) })
	s.rate.add(n, time.Since(start))
	return n, err
}

// wait calls read and stops the timer when it returns.
func (s *blobStream) wait(read func() (int, error)) (int, error) {
	start := time.Now()
	n, err := read()
	s.timer.Stop()
	s.received, s.waited = s.received+int64(n), s.waited+time.Since(start)
	if float64(s.received) >= minRate*s.limit.Seconds() {
		s.received, s.waited = 0, 0
	}
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(s.ctx), ErrStalled) {
		err = ErrStalled
	}
	return n, err
}

// Close cancels the request first: to close some bodies, the library reads them to their ends.
func (s *blobStream) Close() error {
	s.cancel(nil)
	_ = s.body.Close() // nothing was written to it
	return nil
}
