package cluster

import (
	"testing"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fleet"
)

// A report is written at most once in 10 seconds while a pass is at work, and once in 5 minutes at rest.
func TestNextWrite(t *testing.T) {
	rest := fleet.Report{}
	pulling := fleet.Report{Conditions: []runtime.Condition{{Type: runtime.ProgressingCondition, Status: "True"}}}
	for name, test := range map[string]struct {
		written, now  fleet.Report
		last, changed time.Duration
		want          time.Duration
	}{
		"the first one":                 {rest, rest, -time.Hour, 0, time.Second},
		"a pass begins":                 {rest, pulling, -time.Hour, 0, time.Second},
		"a pass begins after a write":   {rest, pulling, 0, 2 * time.Second, 10 * time.Second},
		"a pass goes on":                {pulling, pulling, 0, 2 * time.Second, 10 * time.Second},
		"a pass ends":                   {pulling, rest, 0, 2 * time.Second, 10 * time.Second},
		"a change at rest":              {rest, rest, 0, 2 * time.Second, 5 * time.Minute},
		"ready again":                   {rest, fleet.Report{Ready: true}, 0, 2 * time.Second, 10 * time.Second},
		"a change after a long rest":    {rest, rest, 0, 6 * time.Minute, 6*time.Minute + time.Second},
		"a change just before the time": {pulling, pulling, 0, 9500 * time.Millisecond, 10500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			zero := time.Unix(1000, 0)
			got := nextWrite(test.written, test.now, zero.Add(test.last), zero.Add(test.changed)).Sub(zero)
			if got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
