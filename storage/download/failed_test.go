package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/docker/distribution/registry/api/errcode"
	"go.podman.io/image/v5/docker"
)

// What an error of the library says about the request: whether it may be made again, whether the registry is busy, and
// whether anything has answered.
func TestFailed(t *testing.T) {
	again, busy, silent := Failure{}, Failure{Busy: true}, Failure{Silent: true}
	status := func(code int) error {
		return fmt.Errorf("a token: %w", docker.UnexpectedHTTPStatusError{StatusCode: code})
	}
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	of := func(err error) error { return &url.Error{Op: "Get", URL: "https://HOST", Err: err} }
	for name, test := range map[string]struct {
		err  error
		want *Failure
	}{
		"none":                           {nil, nil},
		"interrupted":                    {of(context.Canceled), nil},
		"a status of the server":         {status(http.StatusInternalServerError), &again},
		"a proxy before it":              {status(http.StatusBadGateway), &again},
		"busy":                           {status(http.StatusServiceUnavailable), &busy},
		"too many requests":              {errcode.ErrorCodeTooManyRequests.WithMessage("slow down"), &busy},
		"too many, without a detail":     {fmt.Errorf("x: %w", errcode.ErrorCodeTooManyRequests), &busy},
		"too many requests for tokens":   {fmt.Errorf("x: %w", docker.ErrTooManyRequests), &busy},
		"a status of the client":         {status(http.StatusForbidden), nil},
		"closed before the answer":       {of(io.EOF), &again},
		"ends early":                     {&Lost{io.ErrUnexpectedEOF}, &again},
		"reset":                          {of(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), &again},
		"stalled":                        {&Lost{ErrStalled}, &again},
		"nothing listens":                {of(dial), &silent},
		"no address":                     {of(&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}), &silent},
		"the proxy is down":              {of(&net.OpError{Op: "proxyconnect", Err: dial}), &silent},
		"the proxy cannot connect":       {of(errors.New("Bad Gateway")), &silent},
		"the proxy admits no more":       {of(errors.New("Service Unavailable")), &Failure{Busy: true, Silent: true}},
		"a certificate is not trusted":   {of(errors.New("tls: failed to verify certificate")), nil},
		"HTTP in place of HTTPS":         {of(http.ErrSchemeMismatch), nil},
		"it wants a client certificate":  {of(&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}), nil},
		"an image that nobody has there": {errcode.ErrorCodeUnknown.WithMessage("no such image"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Failed(test.err)
			if (got == nil) != (test.want == nil) {
				t.Fatalf("got %+v, want %+v", got, test.want)
			}
			if got != nil && (got.Busy != test.want.Busy || got.Silent != test.want.Silent || errors.Is(got.Err, io.EOF)) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// A registry may say as much as it likes: what is shown of it is cut, and the error stays what it is.
func TestBrief(t *testing.T) {
	long := fmt.Errorf("%w: %s", syscall.ECONNRESET, strings.Repeat("ü", 1<<20))
	got := Brief(long)
	if text := got.Error(); len(text) > longest+40 || !utf8.ValidString(text) || !strings.HasSuffix(text, "(2097178 bytes)") {
		t.Errorf("got %d bytes that end in %q", len(text), text[len(text)-20:])
	}
	if !errors.Is(got, syscall.ECONNRESET) || Failed(got) == nil {
		t.Errorf("got %v, want that it is one after which a request is made again", Failed(got))
	}
	if short := errors.New("short"); !errors.Is(Brief(short), short) || Brief(short).Error() != "short" || Brief(nil) != nil {
		t.Error("an error that is short is changed")
	}
}
