package runbook

import (
	"fmt"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
)

// Pace is what an estimate takes for granted: bytes in a second. Nobody has measured the stick or link of the reader,
// so the text says the pace, and the time is in proportion to it.
type Pace int64

const (
	link  Pace = 10_000_000
	stick Pace = 30_000_000
	disk  Pace = 100_000_000
)

func (p Pace) String() string {
	return fmt.Sprintf("%d MB/s (%s)", p/1_000_000, map[Pace]string{link: "link", stick: "stick", disk: "disk"}[p])
}

// took says how many bytes there are, and how long they take by each of these.
func took(bytes int64, by []Pace) string {
	text, between := bytesize.Format(bytes), ": "
	for _, p := range by {
		d, unit := time.Duration(float64(bytes)/float64(p)*float64(time.Second)), "s"
		n := d / time.Second
		switch {
		case d >= 3*time.Hour:
			n, unit = d/time.Hour, "h"
		case d >= 3*time.Minute:
			n, unit = d/time.Minute, "min"
		}
		text += fmt.Sprintf("%sabout %d %s at %s", between, n+1, unit, p)
		between = ", "
	}
	return text
}
