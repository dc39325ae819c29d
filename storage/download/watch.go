package download

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"
)

// libraryWait returns how long the library may sleep before it makes a request again for which it was told to slow
// down: at most a minute (backoffMaxDelay in docker/docker_client.go), and ten seconds for whoever sets a short
// limit.
func libraryWait(limit time.Duration) time.Duration {
	return min(time.Minute, max(limit, 10*time.Second))
}

// Watch returns a context for a call of the library that makes requests one after the other. It ends with ErrStalled as
// its cause if one of them has no answer for the time that a request may stall, or if nothing comes after an answer for
// longer than the library sleeps by itself. The caller calls stop after the call; it returns the error of the call, or
// that it stalled.
func (h *Host) Watch(ctx context.Context) (watched context.Context, stop func(error) error) {
	watched, cancel := context.WithCancelCause(ctx)
	limit := h.all.Stall
	timer := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("%w: %s has not answered within %v", ErrStalled, h.name, limit))
	})
	watched = httptrace.WithClientTrace(watched, &httptrace.ClientTrace{
		GetConn:              func(string) { timer.Reset(limit) },
		GotFirstResponseByte: func() { timer.Reset(limit + libraryWait(limit)) },
	})
	return watched, func(err error) error {
		timer.Stop()
		if err != nil && watched.Err() != nil && ctx.Err() == nil {
			err = context.Cause(watched)
		}
		cancel(nil)
		return err
	}
}

// Repeated says in a line that the library has repeated a request: it does so after the status 429, without a word. It
// knows that by the URLs of requests that are made one after the other.
type Repeated struct {
	host *Host

	mu    sync.Mutex
	last  string
	at    time.Time
	again bool
	ended bool
}

// Repeated returns one for the requests of a source that is being opened.
func (h *Host) Repeated() *Repeated { return &Repeated{host: h} }

// See is called with the URL of each request.
func (r *Repeated) See(u *url.URL) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := u.String(); !r.ended && text == r.last {
		r.again = true
		r.host.all.say(fmt.Sprintf("%s: %v; asked again after %v", r.host.name, ErrBusy,
			time.Since(r.at).Round(time.Second/10)))
	} else {
		r.last = text
	}
	r.at = time.Now()
}

// Busy is what an error of opening the source means: ErrBusy for an ErrStalled after a repetition, since the library
// sleeps then, for longer each time.
func (r *Repeated) Busy(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again && errors.Is(err, ErrStalled) {
		return ErrBusy
	}
	return err
}

// End ends it: from now on, a Transport repeats requests.
func (r *Repeated) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}
