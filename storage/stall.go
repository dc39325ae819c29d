package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.podman.io/image/v5/pkg/sysregistriesv2"
)

// DefaultStallTimeout is how long a registry is waited for where nothing else is said: as long as
// pinbox-node waits (runtime.Options). A registry that fetches a blob from elsewhere itself
// may take minutes before it sends the first byte.
const DefaultStallTimeout = 5 * time.Minute

const (
	// minRate is how many bytes of a blob have to come in a second. A ship's link of
	// 1 KB/s gives each of the layers that are read at a time 128 of them; a byte every
	// five seconds, with which a proxy keeps a connection alive, is 0.2.
	minRate = 16
	// attempts at a document, and at a blob unless there is progress.
	attempts = 3
)

// waiter is how long a registry is waited for. The zero value waits for ever: what is on
// this machine needs no limit. The library itself waits for ever too (docker_client.go
// has an http.Client without a timeout).
type waiter struct {
	limit time.Duration
	// host and name, of an image, are for messages.
	host, name string
	// retrying is Access.Retrying; it may be nil.
	retrying func(string)
}

// waiter is for an image of a repository, by the name that it is asked for by.
func (c *Client) waiter(repository, name string) waiter {
	host, _, _ := strings.Cut(repository, "/")
	// Which of them the library has asked, it does not tell.
	if r, err := sysregistriesv2.FindRegistry(c.sys, repository); err == nil && r != nil && len(r.Mirrors) > 0 {
		host += " or a mirror of it"
	}
	return waiter{c.stallTimeout, host, name, c.retrying}
}

// retry reports that a request is repeated after so many failed attempts, and why.
func (w waiter) retry(what string, failed int, why error) {
	if w.retrying != nil {
		w.retrying(fmt.Sprintf("%s: asking %s again (%d of %d): %v", what, w.host, failed+1, attempts, why))
	}
}

// ask waits for an answer that the library reads to its end: of a document, of which
// nobody sees how much has come. It asks again if that takes too long.
func (w waiter) ask(ctx context.Context, question func(context.Context) error) error {
	if w.limit == 0 {
		return question(ctx)
	}
	for failed := range attempts {
		if failed > 0 {
			w.retry(w.name, failed, ErrStalled)
		}
		limited, cancel := context.WithTimeout(ctx, w.limit)
		err := question(limited)
		late := limited.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w: %s was asked %d times and has not answered within %v", ErrRegistry, ErrStalled, w.host,
		attempts, w.limit)
}

// blobStream is a blob that arrives. Reading it fails with ErrStalled if fewer bytes than
// minRate arrive per second, measured only while a reader waits for them.
type blobStream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer
	body   io.ReadCloser
	// got came in the time that was waited so far of the limit.
	got    int64
	waited time.Duration
}

// open starts to read a blob. open's context ends with the flow.
func (w waiter) open(
	ctx context.Context, open func(context.Context) (io.ReadCloser, error),
) (_ *blobStream, err error) {
	f := &blobStream{limit: w.limit}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	f.timer = time.AfterFunc(w.limit, func() { f.cancel(ErrStalled) })
	_, err = f.wait(func() (_ int, err error) {
		f.body, err = open(f.ctx)
		return 0, err
	})
	if err != nil {
		f.cancel(nil)
		if errors.Is(err, io.EOF) { // of the connection: to a reader it would be that of the blob
			err = fmt.Errorf("%w: %v", io.ErrUnexpectedEOF, err) //nolint:errorlint // no EOF
		}
		return nil, err
	}
	return f, nil
}

func (f *blobStream) Read(p []byte) (int, error) {
	f.timer.Reset(f.limit - f.waited)
	return f.wait(func() (int, error) { return f.body.Read(p) })
}

// wait lets the timer run while read waits for bytes.
func (f *blobStream) wait(read func() (int, error)) (int, error) {
	start := time.Now()
	n, err := read()
	f.timer.Stop()
	f.got, f.waited = f.got+int64(n), f.waited+time.Since(start)
	if float64(f.got) >= minRate*f.limit.Seconds() {
		f.got, f.waited = 0, 0
	}
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(f.ctx), ErrStalled) {
		err = ErrStalled
	}
	return n, err
}

// Close first cancels what is on its way: the library reads some bodies to their ends.
func (f *blobStream) Close() error {
	f.cancel(nil)
	_ = f.body.Close() // nothing was written to it
	return nil
}
