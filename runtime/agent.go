package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Agent makes a pass whenever the sets change, and one in every interval, which restores images
// and pins that somebody has removed.
type Agent struct {
	Reconciler *Reconciler
	// Changes receives a value when the sets may have changed.
	Changes <-chan struct{}
	// Service is the service manager that is notified of what the agent does.
	Service Service
	Log     *slog.Logger
	// Interval between passes when nothing happens; 0 means 5 minutes.
	Interval time.Duration
	// Debounce is how long changes are gathered; 0 means half a second.
	Debounce time.Duration

	logged string // what was logged last
}

// Service is a service manager: systemd.
type Service interface {
	Ready()
	// Watchdog reports that the service works. It has to be called in every WatchdogInterval; never
	// if that is 0.
	Watchdog()
	WatchdogInterval() time.Duration
	// SetStatus sets one line that describes what the service does.
	SetStatus(string)
}

// outcome of a pass.
type outcome struct {
	status Status
	err    error
}

// Run makes passes until ctx ends. A change of the sets cancels the pass that runs, with its
// pulls; blobs that were fetched stay staged.
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
		cancel   context.CancelFunc // nil while no pass runs
		sets     = a.revisions()
		changed  = true // since the last pass began
		failures int
	)
	for {
		select {
		case <-ctx.Done():
			if cancel != nil {
				cancel()
				<-done
			}
			return
		case <-watchdog:
			a.Service.Watchdog()
		case <-a.Changes:
			now := a.revisions()
			if now == sets { // a file was touched
				continue
			}
			sets, failures = now, 0
			if cancel != nil {
				a.Log.Info("the sets have changed, starting a new pass")
				cancel()
			}
			if !changed { // else a pass is due already
				changed = true
				next.Reset(a.Debounce)
			}
		case <-next.C:
			if cancel != nil {
				continue // the pass is ending; the next one is started then
			}
			changed = false
			cancel = a.pass(ctx, done)
		case o := <-done:
			cancel()
			cancel = nil
			wait := a.after(o, &failures)
			if changed {
				wait = a.Debounce
			}
			next.Reset(wait)
		}
	}
}

// prepare sets the defaults, and reports every status to the service manager, too.
func (a *Agent) prepare() {
	if a.Interval <= 0 {
		a.Interval = 5 * time.Minute
	}
	if a.Debounce == 0 {
		a.Debounce = 500 * time.Millisecond
	}
	a.Reconciler.service = a.Service
}

// pass starts a pass, and returns the function that cancels it.
func (a *Agent) pass(ctx context.Context, done chan<- outcome) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		status, err := a.Reconciler.Pass(ctx)
		done <- outcome{status, err}
	}()
	return cancel
}

// revisions identifies the content of the sets.
func (a *Agent) revisions() string {
	sets, err := a.Reconciler.Node.Sets()
	var b strings.Builder
	for _, set := range sets {
		fmt.Fprintf(&b, "%s %s %v\n", set.Name, set.Revision(), set.Images)
	}
	fmt.Fprint(&b, err)
	return b.String()
}

// after logs the result of a pass, and returns the time until the next one.
func (a *Agent) after(o outcome, failures *int) time.Duration {
	if errors.Is(o.err, context.Canceled) {
		return a.Debounce
	}
	if o.err != nil {
		a.Log.Error("pass", "error", o.err)
	}
	a.log(o.status)
	if o.err == nil && o.status.Healthy() {
		*failures = 0
		return a.Interval
	}
	*failures++
	return a.retryAfter(o, *failures)
}

// retryAfter is the time until a retry: short if an error is transient, such as a status that could not be
// published since /run is full, else the interval.
func (a *Agent) retryAfter(o outcome, failures int) time.Duration {
	transient := o.err != nil || len(o.status.Errors) > 0
	for _, img := range o.status.Images {
		transient = transient || img.ErrorClass.Transient() && img.ErrorClass != ""
	}
	if !transient {
		return a.Interval
	}
	return min(Retry{First: 2 * time.Second, Longest: a.Interval}.after(failures), a.Interval)
}

// log logs the status, if it has changed.
func (a *Agent) log(s Status) {
	var lines []string
	for _, set := range s.Sets {
		if set.LastFailedGenerationError != "" {
			lines = append(lines, "set "+set.Name+": "+set.LastFailedGenerationError)
		}
	}
	lines = append(append(lines, s.Errors...), s.Warnings...)
	text := s.Summary() + strings.Join(lines, "\n")
	if text == a.logged {
		return
	}
	a.logged = text
	a.Log.Info(s.Summary())
	for _, line := range lines {
		a.Log.Warn(line)
	}
}
