package download

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pinbox/pinbox/storage/fault"
)

// Reasons why a request is given up.
var (
	ErrStalled = fault.New(fault.Registry, "connection stalled",
		"run the command again, which continues where it ended; check the network, proxies and mirrors; --stall "+
			"gives a slow registry more time") // it is open, but next to no data arrives
	ErrBusy = fault.New(fault.Registry, "registry admits no more requests for now",
		"wait and run the command again, which continues where it ended; a registry may admit more requests of a user "+
			"who is logged in; --stall sets how long to wait")
	ErrFails = fault.New(fault.Registry, "registry fails",
		"run the command again later, which continues where it ended; if it stays so, ask whoever runs the registry")
	ErrTooLong = fault.New(fault.Registry, "answer of the registry does not end",
		"ask whoever runs the registry, or a proxy before it; `curl -v` shows what it answers")
)

// ErrEnded is in an error after which all patience has ended.
var ErrEnded = errors.New("nothing has arrived")

const (
	// attempts is how often a request is made to a host that has never answered, and to a mirror behind which there is
	// another place to ask.
	attempts = 3
	// longestWait is the longest time between two attempts that no registry has asked for.
	longestWait = 15 * time.Second
	// mostAsked is how long registries may ask to wait, one time after the other, while nothing moves.
	mostAsked = 30 * time.Minute
)

// Patience says how long requests that fail are made again: until nothing of the whole build has moved for a time. The
// time for which registries ask does not count.
type Patience struct {
	// Stall is how long one request may have no answer, or bring fewer than Least bytes per second.
	Stall time.Duration
	Least int64
	// PerSecond is how many requests a host gets in a second, at even distances; 0 for no limit.
	PerSecond int
	// Sure means that each host exists: one that has never answered is waited for like any other.
	Sure bool

	limit time.Duration
	say   func(string)

	mu    sync.Mutex
	hosts map[string]*Host
	moved time.Time // when something has moved last
	// failing is since when requests fail while nothing moves; zero if none has failed since something moved.
	failing time.Time
	// asked is for how long registries have asked to wait since then, up to the time askedTo.
	asked   time.Duration
	askedTo time.Time
}

// NewPatience returns a patience that ends after a time without a move, which is also how long a request may stall. say
// is called with a line for each wait, from several goroutines; it may be nil.
func NewPatience(limit time.Duration, say func(string)) *Patience {
	if say == nil {
		say = func(string) {}
	}
	return &Patience{Stall: limit, Least: minRate, limit: limit, say: say, hosts: map[string]*Host{}}
}

// Enough is how many bytes of a body must arrive within the time that a request may stall, at least one.
func (p *Patience) Enough() int64 { return max(1, int64(float64(p.Least)*p.Stall.Seconds())) }

// Moved says that something has arrived that was not there before.
func (p *Patience) Moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved, p.failing = time.Now(), time.Time{}
}

// left returns how much longer to wait after a failure, and whether the patience has ended.
func (p *Patience) left(f *Failure) (left time.Duration, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.failing.IsZero() {
		p.failing, p.asked, p.askedTo = now, 0, now
		if !f.Since.IsZero() {
			p.failing = f.Since
		}
		if p.failing.Before(p.moved) {
			p.failing = p.moved
		}
	}
	if end := now.Add(f.Asked); end.After(p.askedTo) {
		from := now
		if p.askedTo.After(now) {
			from = p.askedTo
		}
		p.asked += end.Sub(from)
		p.askedTo = end
	}
	waited := p.asked // of what was asked for, up to now
	if p.askedTo.After(now) {
		waited -= p.askedTo.Sub(now)
	}
	left = p.limit - (now.Sub(p.failing) - waited)
	return left, left <= 0 || p.asked > mostAsked
}

// Host returns the host of a name, as HOST or HOST:PORT.
func (p *Patience) Host(name string) *Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[name]
	if h == nil {
		h = &Host{name: name, all: p, changed: make(chan struct{})}
		p.hosts[name] = h
	}
	return h
}

// Failure is why a request may be made again.
type Failure struct {
	Err error
	// Asked is how long the registry wants to be left alone; 0 if it has not said so.
	Asked time.Duration
	// Since is when the request was made, if it was repeated since then; zero for now.
	Since time.Time
	// Busy means that it answers, and admits no more requests for now.
	Busy bool
	// Silent means that nothing has answered.
	Silent bool
}

// Host is a server to which requests go.
type Host struct {
	name string
	all  *Patience
	rate rate

	mu       sync.Mutex
	answered bool
	open     int       // requests that wait for an answer
	limit    int       // of them; 0 for none
	good     int       // answers since limit has changed
	until    time.Time // when the host wants the next request
	next     time.Time // when it may get one, by PerSecond
	said     time.Time // until when a line has said that it is waited for
	changed  chan struct{}
}

// Name is HOST or HOST:PORT.
func (h *Host) Name() string { return h.name }

// Enter waits until the host admits a request. The caller calls Leave when there is an answer.
func (h *Host) Enter(ctx context.Context) error {
	for {
		h.mu.Lock()
		wait, changed := max(time.Until(h.until), time.Until(h.next)), h.changed
		if wait <= 0 && (h.limit == 0 || h.open < h.limit) {
			h.open++
			if h.all.PerSecond > 0 {
				h.next = time.Now().Add(time.Second / time.Duration(h.all.PerSecond))
			}
			h.mu.Unlock()
			return nil
		}
		h.mu.Unlock()
		if wait <= 0 {
			wait = longestWait
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-time.After(wait):
		}
	}
}

// Leave says how a request has ended; f is nil for an answer. A host that is busy gets fewer requests at a time, and
// more with each round of answers.
func (h *Host) Leave(f *Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
	h.answered = h.answered || f == nil || !f.Silent
	switch {
	case f != nil && f.Busy:
		h.limit, h.good = max(1, h.open), 0
		if until := time.Now().Add(f.Asked); f.Asked > 0 && until.After(h.until) {
			h.until = until
		}
	case f == nil && h.limit > 0:
		if h.good++; h.good >= h.limit {
			h.limit, h.good = h.limit+1, 0
		}
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// Wait waits before a request is made again that has failed n times. It returns the error of the request instead if it
// was made most times (0: as often as there is patience), if the host has never answered, or if the patience ends.
func (h *Host) Wait(ctx context.Context, f *Failure, n, most int) error {
	h.mu.Lock()
	if !h.answered && most == 0 && !h.all.Sure {
		most = attempts
	}
	h.mu.Unlock()
	if most > 0 && n >= most {
		return f.Err
	}
	left, ended := h.all.left(f)
	if ended {
		return fmt.Errorf("it was asked for %v, %d times, and %w: %w", h.all.limit, n, ErrEnded, f.Err)
	}
	wait := f.Asked
	if wait == 0 {
		wait = min(longestWait, time.Second<<min(n-1, 10))
		wait = min(left, wait-wait/8+rand.N(wait/4)) // else all that have failed together would come together
	}
	h.tell(f, wait)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}

// tell says that the host is waited for, in one line for all requests that wait together.
func (h *Host) tell(f *Failure, wait time.Duration) {
	now := time.Now()
	h.mu.Lock()
	saying := !now.Before(h.said)
	if saying {
		h.said = now.Add(wait)
	}
	h.mu.Unlock()
	if saying {
		h.all.say(fmt.Sprintf("%s: %v; asking again in %v", h.name, f.Err, wait.Round(time.Second/10)))
	}
}
