package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// minRate is the lowest rate of a body, in bytes per second, if a Patience has no other. A satellite link of 1 KB/s
// gives 32 to each layer that is fetched at the same time; a proxy that keeps a connection open with a byte every five
// seconds sends 0.2.
const minRate = 16

// body is the body of a response. Read fails with ErrStalled if fewer bytes than Patience.Least arrive per second; only
// the time in which a reader waits is measured.
type body struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration
	host   *Host
	body   io.ReadCloser
	// fast is the host whose rate it shows; nil for what is no blob.
	fast *Host
	// received bytes arrived while the reader waited, in the present period of limit.
	received int64
	waited   time.Duration
}

// Read returns errors of the connection as *Lost.
func (b *body) Read(p []byte) (int, error) {
	n, err, start := 0, b.ctx.Err(), time.Now()
	if err == nil { // else what had arrived before the end would be read nevertheless
		timer := time.AfterFunc(b.limit-b.waited, func() { b.cancel(ErrStalled) })
		n, err = b.body.Read(p)
		timer.Stop()
	}
	took := time.Since(start)
	if b.fast != nil {
		b.fast.rate.add(n, took)
	}
	b.received, b.waited = b.received+int64(n), b.waited+took
	if b.received >= b.host.all.Enough() {
		b.received, b.waited = 0, 0
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case errors.Is(context.Cause(b.ctx), ErrStalled):
		return n, &Lost{fmt.Errorf("%w: %s sends fewer than %d bytes per second, for %v", ErrStalled, b.host.name,
			b.host.all.Least, b.limit)}
	case b.ctx.Err() != nil:
		return n, err
	}
	return n, &Lost{err}
}

// Close cancels the request first: to close some bodies, the library reads them to their ends.
func (b *body) Close() error {
	b.cancel(nil)
	return b.body.Close()
}
