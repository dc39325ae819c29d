package download

import (
	"sync"
	"time"
)

const (
	// fastRate is the rate of a connection, in bytes per second, from which it takes longer to pack what it brings: two
	// cores pack gzipped layers at 40 to 60 MB/s.
	fastRate = 64 << 20
	// period is after how many bytes a rate is known.
	period = 1 << 20
)

// rate is how fast the connections of a host are, on average.
type rate struct {
	mu       sync.Mutex
	fast     int64 // bytes per second of a fast one; 0 for fastRate
	received int64 // in the present period
	waited   time.Duration
	isFast   bool // in the period before
}

// add counts bytes for which a reader has waited.
func (r *rate) add(bytes int, waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received, r.waited = r.received+int64(bytes), r.waited+waited
	if r.received >= period {
		fast := r.fast
		if fast == 0 {
			fast = fastRate
		}
		r.isFast = float64(r.received) >= float64(fast)*r.waited.Seconds()
		r.received, r.waited = 0, 0
	}
}

// SetFast sets from which rate on a connection is fast, in bytes per second, in place of that for which one connection
// brings as much as a machine packs.
func (h *Host) SetFast(rate int64) {
	h.rate.mu.Lock()
	defer h.rate.mu.Unlock()
	h.rate.fast = rate
}

// Fast reports whether one connection is enough for a layer. It is false until that is known.
func (h *Host) Fast() bool {
	h.rate.mu.Lock()
	defer h.rate.mu.Unlock()
	return h.rate.isFast
}
