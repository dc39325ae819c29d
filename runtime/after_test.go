package runtime

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/pinset"
)

// recordingService is a service manager that records the status lines.
type recordingService struct{ statuses []string }

func (q *recordingService) Ready()                          {}
func (q *recordingService) Watchdog()                       {}
func (q *recordingService) WatchdogInterval() time.Duration { return 0 }
func (q *recordingService) SetStatus(line string)           { q.statuses = append(q.statuses, line) }

// emptyNode has no sets.
type emptyNode struct{}

func (emptyNode) Configure(context.Context) (Configuration, error) { return Configuration{}, nil }
func (emptyNode) Sets() ([]pinset.Set, error)                      { return nil, nil }
func (emptyNode) Publish(Status) error                             { return nil }

// After a transient error, the next pass starts soon, later after each failure. After any other
// error it starts after the interval.
func TestRetryAfter(t *testing.T) {
	image := func(class Class) Status {
		return Status{Images: []ImageStatus{{State: Missing, ErrorClass: class}}}
	}
	for name, c := range map[string]struct {
		status      Status
		failures    int
		least, most time.Duration
	}{
		"an image that is being pulled": {image(""), 1, time.Minute, time.Minute},
		"credentials":                   {image(Auth), 1, time.Minute, time.Minute},
		"the network":                   {image(Network), 1, time.Second, 2 * time.Second},
		"the network, 3 failures":       {image(Network), 3, 4 * time.Second, 8 * time.Second},
		"the network, 30 failures":      {image(Network), 30, 30 * time.Second, time.Minute},
		"an error of the node":          {Status{Errors: []string{"no answer"}}, 2, 2 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := Agent{Interval: time.Minute}
			for range 20 { // up to a half of the time is random
				if got := a.retryAfter(outcome{status: c.status}, c.failures); got < c.least || got > c.most {
					t.Fatalf("got %s, want between %s and %s", got, c.least, c.most)
				}
			}
		})
	}
	short := Agent{Interval: time.Second}
	if got := short.retryAfter(outcome{status: image(Network)}, 1); got > time.Second {
		t.Errorf("got %s, want at most the interval, 1s", got)
	}
}

// After a cancelled pass the next one starts at once. Failures are counted until the node is
// healthy.
func TestAfterPass(t *testing.T) {
	var log strings.Builder
	a := Agent{Interval: time.Hour, Debounce: time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))}
	healthy := testReport(nil).status(Status{}, time.Now())
	failures := 0
	for _, step := range []struct {
		o        outcome
		most     time.Duration
		failures int
	}{
		{outcome{Status{Errors: []string{"first"}}, nil}, 2 * time.Second, 1},
		{outcome{Status{Errors: []string{"first"}}, nil}, 4 * time.Second, 2},
		{outcome{Status{}, context.Canceled}, time.Millisecond, 2},
		{outcome{healthy, errors.New("status.json")}, 8 * time.Second, 3},
		{outcome{healthy, nil}, time.Hour, 0},
		{outcome{Status{Sets: []SetStatus{{Name: "s", LastFailedGenerationError: "401"}, {Name: "t"}}}, nil}, time.Hour, 1},
	} {
		got := a.after(step.o, &failures)
		if got > step.most || got < step.most/2 || failures != step.failures {
			t.Errorf("%v: got %s, %d failures, want %s, %d", step.o, got, failures, step.most, step.failures)
		}
	}
	for text, want := range map[string]int{"first": 1, "status.json": 1, "no sets": 1, `"set s: 401"`: 1, "set t": 0} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("got %q %d times, want %d:\n%s", text, got, want, &log)
		}
	}
}

// A service manager without a watchdog is not notified by a timer.
func TestAgentWithoutWatchdog(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := Agent{Service: &recordingService{}, Reconciler: &Reconciler{Node: emptyNode{}}}
	a.Run(ctx) // a timer with an interval of 0 panics
}

// The service manager gets the summary of each status, with the reason of a degraded one.
func TestServiceManagerStatus(t *testing.T) {
	a := Agent{Service: &recordingService{}, Reconciler: &Reconciler{Node: emptyNode{}}}
	a.prepare()
	if a.Interval != 5*time.Minute || a.Debounce != 500*time.Millisecond {
		t.Errorf("got interval %s, debounce %s, want 5m, 500ms", a.Interval, a.Debounce)
	}
	r := testReport(nil)
	healthy := r.status(Status{}, time.Now())
	r.problems = []error{errors.New("it is wrong")}
	degraded := r.status(Status{}, time.Now())
	for _, c := range []struct {
		s    Status
		want string
	}{{healthy, "no sets, so nothing is pinned"}, {degraded, "degraded: 0 of 0 images are pinned; it is wrong"}} {
		a.Reconciler.previous = c.s
		if err := a.Reconciler.publish(); err != nil {
			t.Error(err)
		}
		if lines := a.Service.(*recordingService).statuses; lines[len(lines)-1] != c.want {
			t.Errorf("got %q, want %q", lines[len(lines)-1], c.want)
		}
	}
}

// Summary describes a status in one line.
func TestSummary(t *testing.T) {
	a, b := image("a"), image("b")
	now := time.Now()
	both, one := map[pinset.Image]bool{a: true, b: true}, map[pinset.Image]bool{a: true, b: false}
	pulling := func(p Progress) func(*report) {
		return func(r *report) { r.working, r.progress = true, &p }
	}
	for name, c := range map[string]struct {
		present map[pinset.Image]bool
		change  func(*report)
		want    string
	}{
		"no sets": {nil, nil, "no sets, so nothing is pinned"},
		"no sets where some are meant to be": {nil, func(r *report) { r.broken = ErrNoSets },
			"not ready: the node has no sets"},
		"healthy":  {both, nil, "all 2 images of 1 sets are pinned"},
		"degraded": {one, nil, "degraded: 1 of 2 images are pinned"},
		"working":  {one, func(r *report) { r.working = true }, "a pass is running; 1 of 2 images are pinned"},
		"pending": {one, func(r *report) { r.pending = true },
			"waiting for a pass, since the sets have changed; 1 of 2 images are pinned"},
		"operator": {one, func(r *report) { r.pending, r.owner = true, MCO },
			"waiting for the Machine Config Operator; 1 of 2 images are pinned"},
		"pulling": {one, pulling(Progress{1, 2, 1024, 4096, time.Time{}}), "pulling: 1 of 2 images, 1 KiB of 4 KiB"},
		"pulling with an estimate": {one, pulling(Progress{1, 2, 1024, 4096, now.Add(90 * time.Second)}),
			"pulling: 1 of 2 images, 1 KiB of 4 KiB (25 %), done in about 1m30s"},
		"pulling, almost done": {one, pulling(Progress{1, 2, 3072, 4096, now}),
			"pulling: 1 of 2 images, 3 KiB of 4 KiB (75 %), done in about 1s"},
		"pulling 0 bytes": {one, pulling(Progress{0, 2, 0, 0, now}), "pulling: 0 of 2 images, 0 bytes of 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := testReport(nil)
			if c.present != nil {
				r = testReport(c.present, set("s", a, b))
			}
			if c.change != nil {
				c.change(&r)
			}
			if got := r.status(Status{}, now).Summary(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The reason is the first error, or else the error of the first set that has one.
func TestReason(t *testing.T) {
	sets := []SetStatus{
		{Name: "a"},
		{Name: "b", LastFailedGenerationError: "b is wrong"},
		{Name: "c", LastFailedGenerationError: "c is wrong"},
	}
	for want, s := range map[string]Status{
		"":           {Sets: sets[:1]},
		"b is wrong": {Sets: sets},
		"first":      {Sets: sets, Errors: []string{"first", "second"}},
	} {
		if got := s.Reason(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A file may use the free space without the reserve.
func TestCheckFile(t *testing.T) {
	l, s := Limits{Reserve: bytesize.Reserve{Bytes: 10}}, disk.Space{Path: "/x", Total: 1000, Free: 30}
	for bytes, fits := range map[int64]bool{0: true, 20: true, 21: false} {
		if err := l.CheckFile(s, bytes); (err == nil) != fits || err != nil && !errors.Is(err, ErrSpace) {
			t.Errorf("%d bytes: got %v, want that it fits: %v", bytes, err, fits)
		}
	}
}

// The remaining time is estimated from the speed so far.
func TestETA(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		p    Progress
		took time.Duration
		want time.Duration // 0 if it is unknown
	}{
		"a quarter in 10 s":  {Progress{Bytes: 25, OfBytes: 100}, 10 * time.Second, 30 * time.Second},
		"nothing yet":        {Progress{OfBytes: 100}, 10 * time.Second, 0},
		"less than a second": {Progress{Bytes: 25, OfBytes: 100}, 500 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := meter{start: now.Add(-c.took)}
			got := m.eta(&c.p)
			if c.want == 0 && !got.IsZero() || c.want > 0 && got.Sub(now.Add(c.want)).Abs() > 2*time.Second {
				t.Errorf("got %v, want in %s", got, c.want)
			}
		})
	}
}
