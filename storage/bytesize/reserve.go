package bytesize

import (
	"fmt"
	"strconv"
	"strings"
)

// Reserve is the space that stays free: the lesser of a number of bytes and a share of the
// file system in percent. A value of 0 does not count; if both are 0, there is no reserve.
type Reserve struct {
	Bytes   int64
	Percent int
}

// ParseReserve reads "16Gi", "10%", or both with a comma; "0" is no reserve.
func ParseReserve(s string) (Reserve, error) {
	var r Reserve
	parts := strings.Split(s, ",")
	if len(parts) > 2 || len(parts) == 2 && strings.HasSuffix(parts[0], "%") == strings.HasSuffix(parts[1], "%") {
		return Reserve{}, fmt.Errorf("reserve %q: it is a number of bytes, a share, or one of each", s)
	}
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if percent, ok := strings.CutSuffix(part, "%"); ok {
			n, err := strconv.Atoi(percent)
			if err != nil || n < 0 || n > 99 {
				return Reserve{}, fmt.Errorf("reserve %q: %s is not a share of a disk, 0%% to 99%%", s, part)
			}
			r.Percent = n
			continue
		}
		n, err := Parse(part)
		if err != nil {
			const form = "16Gi, 10% or 16Gi,10%, with the units Ki, Mi, Gi and Ti"
			return Reserve{}, fmt.Errorf("reserve %q: it has the form %s", s, form)
		}
		r.Bytes = n
	}
	return r, nil
}

// MarshalText returns what UnmarshalText reads.
func (r Reserve) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what ParseReserve reads.
func (r *Reserve) UnmarshalText(text []byte) (err error) {
	*r, err = ParseReserve(string(text))
	return err
}

// String returns what ParseReserve reads.
func (r Reserve) String() string {
	parts := []string{strconv.FormatInt(r.Bytes, 10)}
	if r.Bytes > 0 && r.Bytes%(1<<30) == 0 {
		parts[0] = strconv.FormatInt(r.Bytes>>30, 10) + "Gi"
	}
	if r.Percent > 0 {
		parts = append(parts, strconv.Itoa(r.Percent)+"%")
	}
	return strings.Join(parts, ",")
}

// Of returns the reserve of a file system of so many bytes.
func (r Reserve) Of(total int64) int64 {
	share := total * int64(r.Percent) / 100
	if r.Bytes == 0 || r.Percent > 0 && share < r.Bytes {
		return share
	}
	return r.Bytes
}
