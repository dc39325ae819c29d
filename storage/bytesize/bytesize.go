package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Format formats a number of bytes with at most one decimal: "5.7 MiB".
func Format(n int64) string {
	unit, units := float64(n), []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && unit >= 1023.95 { // would round to 1024
		unit, units = unit/1024, units[1:]
	}
	return strings.TrimSuffix(strconv.FormatFloat(unit, 'f', 1, 64), ".0") + " " + units[0]
}

// Parse parses a size: an integer, of bytes or with one of the units Ki, Mi, Gi and Ti, which may be
// followed by B: "5Gi", "5GiB".
func Parse(s string) (int64, error) {
	number, shift := s, 0
	for i, unit := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if before, ok := strings.CutSuffix(strings.TrimSuffix(s, "B"), unit); ok {
			number, shift = before, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is not a size: an integer, alone or with Ki, Mi, Gi or Ti", s)
	}
	return n << shift, nil
}
