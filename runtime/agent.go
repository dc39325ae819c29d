package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Agent makes a pass whenever the sets change, and every so often against drift:
// an image or a pin that somebody has removed comes back.
type Agent struct {
	Reconciler *Reconciler
	// Changes tells that the sets may have changed.
	Changes <-chan struct{}
	// Service manager to tell what goes on.
	Service Service
	Log     *slog.Logger
	// Interval between passes when nothing happens; 0 means 5 minutes.
	Interval time.Duration
	// Debounce is how long changes are gathered; 0 means half a second.
	Debounce time.Duration

	said string
}

// Service is a service manager: systemd.
type Service interface {
	Ready()
	// Watchdog says that the service works. It is due every WatchdogInterval; never, if that is 0.
	Watchdog()
	WatchdogInterval() time.Duration
	// SetStatus says in a line what the service does.
	SetStatus(string)
}

// outcome of a pass.
type outcome struct {
	status Status
	err    error
}

// Run goes on until ctx ends. A change calls off the pass that runs, pulls
// included: what it has fetched is kept.
func (a *Agent) Run(ctx context.Context) {
	a.prepare()
	watchdog := make(<-chan time.Time)
	if every := a.Service.WatchdogInterval(); every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		watchdog = t.C
	}
	a.Service.Ready()
	next := time.NewTimer(a.Debounce)
	done := make(chan outcome)
	var (
		callOff  context.CancelFunc // nil while no pass runs
		sets     = a.revisions()
		changed  = true // since the last pass began
		failures int
	)
	for {
		select {
		case <-ctx.Done():
			if callOff != nil {
				callOff()
				<-done
			}
			return
		case <-watchdog:
			a.Service.Watchdog()
		case <-a.Changes:
			now := a.revisions()
			if now == sets { // somebody touched a file
				continue
			}
			sets, failures = now, 0
			if callOff != nil {
				a.Log.Info("the sets have changed, starting anew")
				callOff()
			}
			if !changed { // else a pass is due already
				changed = true
				next.Reset(a.Debounce)
			}
		case <-next.C:
			if callOff != nil {
				continue // it is ending, and will see that another is due
			}
			changed = false
			callOff = a.pass(ctx, done)
		case o := <-done:
			callOff()
			callOff = nil
			wait := a.after(o, &failures)
			if changed {
				wait = a.Debounce
			}
			next.Reset(wait)
		}
	}
}

// prepare fills in what was left out, and lets the service manager know of every
// status.
func (a *Agent) prepare() {
	if a.Interval <= 0 {
		a.Interval = 5 * time.Minute
	}
	if a.Debounce == 0 {
		a.Debounce = 500 * time.Millisecond
	}
	publish := a.Reconciler.Publish
	a.Reconciler.Publish = func(s Status) error {
		line := s.Line()
		if reason := s.Reason(); reason != "" && s.Degraded() {
			line += "; " + reason
		}
		a.Service.SetStatus(line)
		return publish(s)
	}
}

// pass starts a pass, and gives what calls it off.
func (a *Agent) pass(ctx context.Context, done chan<- outcome) context.CancelFunc {
	ctx, callOff := context.WithCancel(ctx)
	go func() {
		status, err := a.Reconciler.Pass(ctx)
		done <- outcome{status, err}
	}()
	return callOff
}

// revisions tells one state of the sets from another.
func (a *Agent) revisions() string {
	sets, err := a.Reconciler.Sets()
	var b strings.Builder
	for _, set := range sets {
		fmt.Fprintf(&b, "%s %s %v\n", set.Name, set.Revision(), set.Images)
	}
	fmt.Fprint(&b, err)
	return b.String()
}

// after tells how a pass went, and when the next is due.
func (a *Agent) after(o outcome, failures *int) time.Duration {
	if errors.Is(o.err, context.Canceled) {
		return a.Debounce
	}
	if o.err != nil {
		a.Log.Error("pass", "error", o.err)
	}
	a.tell(o.status)
	if o.err == nil && o.status.Healthy() {
		*failures = 0
		return a.Interval
	}
	*failures++
	return a.again(o.status, *failures)
}

// again is when to try once more: soon if the trouble may pass, else with the
// next look at everything.
func (a *Agent) again(s Status, failures int) time.Duration {
	passing := len(s.Errors) > 0
	for _, img := range s.Images {
		passing = passing || img.ErrorClass.Passing() && img.ErrorClass != ""
	}
	if !passing {
		return a.Interval
	}
	return min(Retry{First: 2 * time.Second, Longest: a.Interval}.after(failures), a.Interval)
}

// tell logs how things stand, if that is news.
func (a *Agent) tell(s Status) {
	var lines []string
	for _, set := range s.Sets {
		if set.LastFailedGenerationError != "" {
			lines = append(lines, "set "+set.Name+": "+set.LastFailedGenerationError)
		}
	}
	lines = append(lines, s.Errors...)
	news := s.Line() + strings.Join(lines, "\n")
	if news == a.said {
		return
	}
	a.said = news
	a.Log.Info(s.Line())
	for _, line := range lines {
		a.Log.Warn(line)
	}
}
