package storage

import (
	"sync"
	"time"
)

// fastRate is the rate of a connection, in bytes per second, from which it takes longer to pack what it brings: two
// cores pack gzipped layers at 40 to 60 MB/s.
const fastRate = 64 << 20

// rate is how fast the connections of a host are, on average.
type rate struct {
	fast int64 // bytes per second of a fast one

	mu       sync.Mutex
	received int64 // in the present period
	waited   time.Duration
	isFast   bool // in the period before
}

// add counts bytes for which a reader has waited. A period has minResumed bytes.
func (r *rate) add(bytes int, waited time.Duration) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received, r.waited = r.received+int64(bytes), r.waited+waited
	if r.received >= minResumed {
		r.isFast = float64(r.received) >= float64(r.fast)*r.waited.Seconds()
		r.received, r.waited = 0, 0
	}
}

// enough reports whether one connection is enough for a layer. It is false until that is known.
func (r *rate) enough() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isFast
}

// rateOf returns the rate of a host.
func (s *sources) rateOf(host string) *rate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rates[host] == nil {
		s.rates[host] = &rate{fast: s.fast}
	}
	return s.rates[host]
}
