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

// The random delay of a report is drawn once. It was drawn at each status, and the least of all counted: nodes that
// pull, and have a status each second, did not wait at all.
func TestDelayIsDrawnOnce(t *testing.T) {
	start := time.Unix(1000, 0)
	pulling := fleet.Report{Conditions: []runtime.Condition{{Type: runtime.ProgressingCondition, Status: "True"}}}
	p := pace{last: start, delayShare: 0.5}
	for second := range 40 {
		p.plan(fleet.Report{Owner: "before"}, pulling, start.Add(time.Duration(second)*time.Second))
		if got, want := p.due(40*time.Second).Sub(start), whilePulling+20*time.Second; got != want {
			t.Errorf("got it due after %v, want it after %v", got, want)
		}
	}
}

// A report that says nothing new is written after half an hour, and one that could not be written in five minutes, or
// as soon as there is something new.
func TestDue(t *testing.T) {
	start := time.Unix(1000, 0)
	rest, other := fleet.Report{}, fleet.Report{Owner: "other"}
	pulling := fleet.Report{Conditions: []runtime.Condition{{Type: runtime.ProgressingCondition, Status: "True"}}}
	for name, test := range map[string]struct {
		pace pace
		says []fleet.Report // one in each of the first seconds
		want time.Duration
	}{
		"nothing is new":                {pace{last: start}, nil, heartbeat},
		"nothing is new, unlucky":       {pace{last: start, delayShare: 1}, nil, heartbeat + heartbeat/10},
		"a change":                      {pace{last: start}, []fleet.Report{other}, atRest},
		"a change that is undone":       {pace{last: start}, []fleet.Report{other, rest}, heartbeat},
		"a change, unlucky":             {pace{last: start, delayShare: 1}, []fleet.Report{other}, atRest + time.Minute},
		"a change after a pass":         {pace{last: start}, []fleet.Report{pulling, other}, whilePulling},
		"a pass after a change at rest": {pace{last: start}, []fleet.Report{other, pulling}, whilePulling},
		"a failure":                     {pace{last: start, failed: true}, nil, whilePulling},
		"a failure, unlucky":            {pace{last: start, failed: true, delayShare: 1}, nil, atRest},
		"a change after a failure":      {pace{last: start.Add(-4 * time.Minute), failed: true, delayShare: 1}, []fleet.Report{pulling}, time.Minute},
		"the first report":              {pace{delayShare: 1}, []fleet.Report{other}, gathering + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			for second, now := range test.says {
				test.pace.plan(rest, now, start.Add(time.Duration(second)*time.Second))
			}
			if got := test.pace.due(time.Minute).Sub(start); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
