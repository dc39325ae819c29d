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
// down: at most a minute (backoffMaxDelay in docker/docker_client.go), and five seconds for whoever sets a short limit,
// in which it repeats it twice.
func libraryWait(limit time.Duration) time.Duration {
	return min(time.Minute, max(limit, 5*time.Second))
}

const (
	// longestAnswer is how many bytes an answer to the library may have: a manifest has at most 4 MiB
	// (MaxManifestBodySize in its internal/iolimits), and the body of an error, which it reads whole
	// (parseHTTPErrorResponse in docker/distribution_error.go), has no limit there.
	longestAnswer = 6 << 20
	// mostUnpacked is by how many bytes the heap may grow while an answer of more than longestPacked comes: net/http
	// unpacks a compressed one, to up to a thousand times its length.
	mostUnpacked  = 256 << 20
	longestPacked = mostUnpacked >> 10
	// meterEvery is how often the bytes of an answer are counted.
	meterEvery = 5 * time.Millisecond
)

// Watch returns a context for a call of the library that makes requests one after the other. It ends with ErrStalled as
// its cause if one of them has no answer for the time that a request may stall, or if nothing comes after an answer for
// longer than the library sleeps by itself, and with ErrTooLong if an answer does not end. The caller calls stop after
// the call; it returns the error of the call, or that cause.
func (h *Host) Watch(ctx context.Context) (watched context.Context, stop func(error) error) {
	watched, cancel := context.WithCancelCause(ctx)
	limit := h.all.Stall
	timer := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("%w: %s has not answered within %v", ErrStalled, h.name, limit))
	})
	var answer meter
	go func() {
		tick := time.NewTicker(meterEvery)
		defer tick.Stop()
		before, bytes := heap(), uint64(0)
		for bytes <= longestPacked || bytes <= longestAnswer && heap() <= before+mostUnpacked {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
			}
			bytes = answer.read()
		}
		cancel(fmt.Errorf("%w: %d KiB have come from %s", ErrTooLong, bytes>>10, h.name))
	}()
	watched = httptrace.WithClientTrace(watched, &httptrace.ClientTrace{
		GetConn:              func(string) { timer.Reset(limit) },
		GotConn:              func(got httptrace.GotConnInfo) { answer.begin(got.Conn) },
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
