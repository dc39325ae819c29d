package runtime

import (
	"context"
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
	// Alive is due as often as Patience says, never if that is 0.
	Alive()
	Patience() time.Duration
	// Says what the service does, in a line.
	Says(string)
}

// outcome of a pass.
type outcome struct {
	status Status
	err    error
}

// Run goes on until ctx ends. A change calls off the pass that runs, pulls
// included: what it has fetched is kept.
func (a *Agent) Run(ctx context.Context) {
	if a.Interval == 0 {
		a.Interval = 5 * time.Minute
	}
	if a.Debounce == 0 {
		a.Debounce = 500 * time.Millisecond
	}
	alive := make(<-chan time.Time)
	if every := a.Service.Patience(); every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		alive = t.C
	}
	publish := a.Reconciler.Publish
	a.Reconciler.Publish = func(s Status) error {
		a.Service.Says(s.Line())
		return publish(s)
	}
	a.Service.Ready()
	next := time.NewTimer(a.Debounce)
	done := make(chan outcome)
	callOff, failures := context.CancelFunc(nil), 0 // callOff is nil while no pass runs
	for {
		select {
		case <-ctx.Done():
			if callOff != nil {
				callOff()
				<-done
			}
			return
		case <-alive:
			a.Service.Alive()
		case <-a.Changes:
			if callOff != nil {
				a.Log.Info("the sets have changed, starting anew")
				callOff()
			}
			failures = 0
			next.Reset(a.Debounce)
		case <-next.C:
			if callOff != nil {
				next.Reset(a.Debounce) // it is ending
				continue
			}
			var pass context.Context
			pass, callOff = context.WithCancel(ctx)
			go func() {
				status, err := a.Reconciler.Pass(pass)
				done <- outcome{status, err}
			}()
		case o := <-done:
			if called := callOff; called != nil {
				called()
			}
			callOff = nil
			if wait, ok := a.after(o, &failures); ok {
				next.Reset(wait)
			}
		}
	}
}

// after tells how a pass went, and when the next is due; not if another is
// waiting already.
func (a *Agent) after(o outcome, failures *int) (time.Duration, bool) {
	if o.err != nil && context.Canceled == o.err {
		return 0, false
	}
	if o.err != nil {
		a.Log.Error("pass", "error", o.err)
	}
	a.tell(o.status)
	if o.err == nil && o.status.Healthy() {
		*failures = 0
		return a.Interval, true
	}
	*failures++
	return a.again(o.status, *failures), true
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
