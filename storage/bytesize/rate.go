package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rate is a number of bytes a second; 0 means any number.
type Rate int64

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
	n, err := Parse(size)
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
