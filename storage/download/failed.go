package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/docker/distribution/registry/api/errcode"
	"go.podman.io/image/v5/docker"
)

// Lost is the error of a body whose connection was lost or has stalled. It hides its cause from errors.Is, since the
// library would make a request of its own for the rest, without a range that it begins with.
type Lost struct{ Cause error }

func (l *Lost) Error() string { return l.Cause.Error() }

// longest is the length of the longest text of an error, in bytes.
const longest = 4 << 10

// brief is an error whose text is cut.
type brief struct {
	error
	text string
}

func (b brief) Error() string { return b.text }

func (b brief) Unwrap() error { return b.error }

// Brief cuts the text of an error of the library, which quotes all that a registry says.
func Brief(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= longest {
		return err
	}
	return brief{err, strings.ToValidUTF8(text[:longest], "") + fmt.Sprintf("… (%d bytes)", len(text))}
}

// transient are the statuses after which a request is made again: those of a server, or of a proxy before it, that
// cannot answer now. podman repeats them, too (pkg/retry of go.podman.io/common).
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// busy are the statuses of a server that admits no more requests.
func busy(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// Failed returns why the request of an error may be made again, or nil if it may not: the registry has refused it, or
// would fail again.
func Failed(err error) *Failure {
	var lost *Lost
	if errors.As(err, &lost) {
		err = lost.Cause
	}
	var unexpected docker.UnexpectedHTTPStatusError
	var coded errcode.ErrorCoder // an Error, or an ErrorCode for a body without a detail
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrStalled):
		return &Failure{Err: err}
	case errors.As(err, &unexpected) && transient(unexpected.StatusCode):
		if busy(unexpected.StatusCode) {
			return &Failure{Err: fmt.Errorf("%w: %w", ErrBusy, err), Busy: true}
		}
		return &Failure{Err: fmt.Errorf("%w: %w", ErrFails, err)}
	case errors.Is(err, docker.ErrTooManyRequests): // of a server of tokens
		return &Failure{Err: fmt.Errorf("%w: %w", ErrBusy, err), Busy: true}
	case errors.As(err, &coded) && coded.ErrorCode() == errcode.ErrorCodeTooManyRequests:
		return &Failure{Err: fmt.Errorf("%w: %w", ErrBusy, err), Busy: true}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	}
	return network(err)
}

// network returns the failure of a connection.
func network(err error) *Failure {
	var lookup *net.DNSError
	var dial *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &lookup):
		return &Failure{Err: err, Silent: true}
	case errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect"):
		return &Failure{Err: err, Silent: true}
	case errors.Is(err, io.EOF): // of the connection; a reader would take it for the end of a blob
		return &Failure{Err: fmt.Errorf("%w: %v", io.ErrUnexpectedEOF, err)} //nolint:errorlint // no EOF
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return &Failure{Err: err}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Failure{Err: err, Silent: true}
	}
	return connectRefused(err)
}

// connectRefused returns the failure of a proxy that has refused the method CONNECT with a status that passes. net/http
// has no type for it: its error is the text of the status (persistConn.addTLS in transport.go).
func connectRefused(err error) *Failure {
	text := err
	for inner := errors.Unwrap(text); inner != nil; inner = errors.Unwrap(text) {
		text = inner
	}
	if cut := (brief{}); errors.As(err, &cut) {
		return nil // that of a proxy is short, and this one long to make
	}
	said := text.Error()
	for _, status := range []int{
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout,
	} {
		if said == http.StatusText(status) {
			return &Failure{Err: fmt.Errorf("the proxy refuses a connection: %w", err), Busy: busy(status), Silent: true}
		}
	}
	return nil
}

// retryAfter reads the header Retry-After: seconds or a date (RFC 9110, section 10.2.3). It is 0 without.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
