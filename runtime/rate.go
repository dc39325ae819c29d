package runtime

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
)

// Rate is a number of bytes a second; 0 means any number.
type Rate int64

// DefaultLeastRate is below any link on which a store can be fetched in days.
const DefaultLeastRate Rate = 8 << 10

// UnmarshalText parses a rate: a number of bytes such as 20MB/s, 512kB/s, 20Mi or 20MiB/s.
func (r *Rate) UnmarshalText(text []byte) error {
	size, _ := strings.CutSuffix(string(text), "/s")
	for unit, factor := range map[string]int64{"kB": 1e3, "MB": 1e6, "GB": 1e9} {
		if number, ok := strings.CutSuffix(size, unit); ok {
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64/factor {
				return badRate(string(text))
			}
			*r = Rate(n * factor)
			return nil
		}
	}
	n, err := bytesize.Parse(size)
	if err != nil {
		return badRate(string(text))
	}
	*r = Rate(n)
	return nil
}

func badRate(text string) error {
	return fmt.Errorf("%q is not a rate: an integer with kB/s, MB/s, GB/s, KiB/s, MiB/s or GiB/s", text)
}

// MarshalText is the rate in bytes.
func (r Rate) MarshalText() ([]byte, error) { return []byte(strconv.FormatInt(int64(r), 10)), nil }

// takes is how long so many bytes take.
func (r Rate) takes(bytes int64) time.Duration {
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
	return time.Until(q.meter.start.Add(q.o.Rate.takes(bytes)))
}
