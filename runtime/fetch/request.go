package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// errDisk is for an error of the node's disk, which another attempt does not cure.
var errDisk = errors.New("write")

// client asks the proxies of the environment, as curl does, and does not unpack what it gets.
var client = &http.Client{Transport: &http.Transport{
	Proxy: http.ProxyFromEnvironment, DisableCompression: true, DisableKeepAlives: true,
	DialContext: (&net.Dialer{Timeout: 30 * time.Second}).DialContext, TLSHandshakeTimeout: 30 * time.Second,
	MaxResponseHeaderBytes: 64 << 10,
}}

// request makes one request for the bytes that are missing, and adds what it gets to part.
func (f *fetcher) request(ctx context.Context) error {
	stall := f.stall()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := f.have
	late := func(got int64) error {
		return fmt.Errorf("%w: %d in %v, after %d of %d", errLate, got, stall, begun, f.Size)
	}
	var got atomic.Int64
	var timer *time.Timer
	watch := func() {
		if n := got.Swap(0); n < f.enough() {
			cancel(late(n))
			return
		}
		timer.Reset(stall)
	}
	timer = time.AfterFunc(time.Hour, watch)
	timer.Reset(stall)
	defer timer.Stop()
	err := f.get(ctx, func(bytes int) { got.Add(int64(bytes)) })
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errLate) {
		return cause
	}
	return err
}

// errLate means that a server sends too little.
var errLate = errors.New("the server sent too few bytes")

// enough is how many bytes a server has to send in the time of stall.
func (f *fetcher) enough() int64 { return max(int64(float64(f.Least)*f.stall().Seconds()), 1) }

func (f *fetcher) stall() time.Duration {
	if f.Stall == 0 {
		return time.Minute
	}
	return f.Stall
}

// get calls alive for what the server sends.
func (f *fetcher) get(ctx context.Context, alive func(bytes int)) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "pinbox-node")
	from := f.have
	if f.plain {
		from = 0
	}
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := f.check(answer, from); err != nil {
		return err
	}
	if answer.StatusCode == http.StatusOK {
		from = 0 // it does not do ranges
	}
	return f.write(ctx, answer.Body, from, alive)
}

// check checks what a server says about its answer to a request for the bytes behind from.
func (f *fetcher) check(answer *http.Response, from int64) error {
	switch answer.StatusCode {
	case http.StatusOK:
		if answer.ContentLength >= 0 && answer.ContentLength != f.Size {
			return fmt.Errorf("the file has %d bytes, not the %d of the store", answer.ContentLength, f.Size)
		}
		return nil
	case http.StatusPartialContent:
		var first, last, all int64
		given := answer.Header.Get("Content-Range")
		if n, err := fmt.Sscanf(given, "bytes %d-%d/%d", &first, &last, &all); n == 3 && err == nil &&
			from > 0 && first == from && last == f.Size-1 && all == f.Size {
			return nil
		}
		f.plain = true
		return fmt.Errorf("the server answers a request for the bytes from %d of %d with %q", from, f.Size, given)
	case http.StatusRequestedRangeNotSatisfiable:
		f.plain = true
	}
	return fmt.Errorf("the server answers %s", answer.Status)
}

// write adds the body to part, whose bytes before from it leaves. What is behind the store is not read.
func (f *fetcher) write(ctx context.Context, body io.Reader, from int64, alive func(bytes int)) error {
	buffer := make([]byte, 1<<20)
	for from < f.Size {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := body.Read(buffer[:min(int64(len(buffer)), f.Size-from)])
		if n > 0 {
			alive(n)
			if _, err := f.part.WriteAt(buffer[:n], from); err != nil {
				return fmt.Errorf("%w: %w", errDisk, err)
			}
			from += int64(n)
			f.have = max(f.have, from)
			if f.Done != nil {
				f.Done(f.have, f.Size)
			}
		}
		if err != nil && from < f.Size {
			return fmt.Errorf("after %d of %d bytes: %w", from, f.Size, err)
		}
	}
	return nil
}
