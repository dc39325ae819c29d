package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Format writes a number of bytes with at most one decimal.
func Format(n int64) string {
	unit, units := float64(n), []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && unit >= 1023.95 { // which would be rounded to 1024
		unit, units = unit/1024, units[1:]
	}
	return strings.TrimSuffix(strconv.FormatFloat(unit, 'f', 1, 64), ".0") + " " + units[0]
}

// Parse reads a number of bytes: a whole number, alone or with one of the units Ki, Mi, Gi
// and Ti, whose B may be there or not.
func Parse(s string) (int64, error) {
	number, shift := s, 0
	for i, unit := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if before, ok := strings.CutSuffix(strings.TrimSuffix(s, "B"), unit); ok {
			number, shift = before, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is not a number of bytes with one of the units Ki, Mi, Gi and Ti", s)
	}
	return n << shift, nil
}
