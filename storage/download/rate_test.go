package download

import (
	"testing"
	"time"
)

// The last MiB says how fast a host is.
func TestRate(t *testing.T) {
	type step struct {
		bytes  int
		waited time.Duration
	}
	for name, test := range map[string]struct {
		steps []step
		want  bool
	}{
		"unknown":          {nil, false},
		"not known yet":    {[]step{{period - 1, 0}}, false},
		"fast":             {[]step{{period, time.Second}}, true},
		"slow":             {[]step{{period, time.Second + time.Microsecond}}, false},
		"in small steps":   {[]step{{period / 2, 2 * time.Second}, {period / 2, 0}}, false},
		"fast, and slower": {[]step{{period, 0}, {period, 2 * time.Second}}, false},
		"slow, and faster": {[]step{{period, 2 * time.Second}, {period, 0}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &Host{rate: rate{fast: period}}
			for _, s := range test.steps {
				h.rate.add(s.bytes, s.waited)
			}
			if got := h.Fast(); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
