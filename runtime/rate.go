package runtime

import (
	"math"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
)

// DefaultLeastRate is below any link on which a store can be fetched in days.
const DefaultLeastRate bytesize.Rate = 8 << 10

// takes is how long so many bytes take at a rate.
func takes(bytes int64, r bytesize.Rate) time.Duration {
	if r == 0 {
		return 0
	}
	return time.Duration(min(float64(bytes)/float64(r)*float64(time.Second), float64(math.MaxInt64/2)))
}

// pace is how long to wait until another pull may begin, so that all bytes of the pass have the rate on average. CRI-O
// pulls an image as fast as it can.
func (q *queue) pace() time.Duration {
	bytes := q.meter.finished
	for _, j := range q.running {
		bytes += q.expected(j)
	}
	return time.Until(q.meter.start.Add(takes(bytes, q.o.Rate)))
}
