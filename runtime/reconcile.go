package runtime

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Reconciler makes passes. Each observes the node first and does what is left to do,
// so one that was killed at any point is completed by the next.
type Reconciler struct {
	Runtime   Runtime
	Images    Images
	Pins      Pins
	Manifests Manifests
	Disk      Disk
	// Configure, unless it is nil, reads anew before each pass what may have
	// changed on the node: who owns it, limits, credentials.
	Configure func(*Reconciler) error
	// Sets reads the node's sets. What it gives beside an error still counts.
	Sets func() ([]pinset.Set, error)
	// Publish puts the status where others read it.
	Publish func(Status) error
	// Stores, unless it is nil, mounts the stores that were attached, or only looks at
	// them, and tells how they are.
	Stores func(context.Context) ([]StoreStatus, error)
	Options
	Hooks Hooks

	// previous is the status that was published last.
	previous Status
	// reloaded says that this process has had CRI-O read the drop-in, and has not
	// written it since. The first pass with anything to do reloads in any case; and
	// a process that dies between writing and reloading has left a ReloadDue.
	reloaded bool
}

// Continue takes up what an earlier process has published.
func (r *Reconciler) Continue(previous Status) { r.previous = previous }

// Pass makes the node have what its sets want, and publishes how that went. The
// space is checked first, then images are pinned, then pulled: so the kubelet
// never removes one between its pull and its pin, and nothing is touched when it
// cannot end well. An error means that ctx ended, or that publishing failed.
func (r *Reconciler) Pass(ctx context.Context) (Status, error) {
	configErr := r.configure()
	o, err := r.complete()
	if err != nil {
		return r.previous, err
	}
	rep := newReport(o, configErr)
	r.stores(ctx, &rep)
	if rep.nodeState, err = r.observe(ctx, o); err != nil {
		return r.end(ctx, rep, err)
	}
	if o.Owner == MCO || rep.upToDate() && !r.previous.ReloadDue {
		return r.finish(ctx, rep, o)
	}
	rep.working = true
	if err := r.publish(rep); err != nil { // registries may take their time
		return r.previous, err
	}
	plan, err := r.plan(ctx, rep.nodeState)
	if err != nil {
		return r.end(ctx, rep, err)
	}
	rep.pulls, rep.faults = plan.Pulls, plan.Unknown
	call(r.Hooks.Planned, plan)
	if err := r.fits(plan.Root, plan.Pulls, o); err != nil {
		return r.end(ctx, rep, err)
	}
	if err := r.pin(ctx, &rep, o); err != nil {
		return r.end(ctx, rep, err)
	}
	rep.pulls = append(rep.pulls, r.misnamed(&rep.nodeState)...)
	if len(rep.pulls) == 0 && len(rep.faults) == 0 { // the last list is as new as another would be
		return r.finish(ctx, rep, o)
	}
	rep.problems = append(rep.problems, r.pull(ctx, plan.Root, &rep, o))
	return r.waitAndFinish(ctx, rep, o)
}

func (r *Reconciler) configure() error {
	if r.Configure == nil {
		return nil
	}
	return r.Configure(r)
}

// waitAndFinish looks once more at the end of a pass that has changed something.
func (r *Reconciler) waitAndFinish(ctx context.Context, rep report, o Options) (Status, error) {
	timeout := o.PinTimeout
	if rep.done == 0 { // they were waited for before
		timeout = 0
	}
	if err := r.waitPinned(ctx, &rep.nodeState, timeout); err != nil {
		return r.end(ctx, rep, err)
	}
	return r.finish(ctx, rep, o)
}

// finish prunes, finds out what is wrong, and publishes.
func (r *Reconciler) finish(ctx context.Context, rep report, o Options) (Status, error) {
	if o.Owner == MCO && !rep.allPinned() {
		rep.pending = true // the operator pins when it has pulled all
		return r.end(ctx, rep, nil)
	}
	if o.Owner == Pinbox && o.Prune {
		rep.problems = append(rep.problems, r.prune(ctx, &rep.nodeState))
	}
	if len(rep.missing()) == 0 {
		r.Manifests.Forget()
	}
	return r.end(ctx, rep, r.stuck(ctx, &rep.nodeState, o))
}

// end publishes the status after a pass. One that was called off says nothing:
// whoever called it off starts the next.
func (r *Reconciler) end(ctx context.Context, rep report, err error) (Status, error) {
	if ctx.Err() != nil {
		return r.previous, ctx.Err()
	}
	rep.working, rep.progress = false, nil
	rep.problems = slices.DeleteFunc(append(rep.problems, err), func(err error) bool { return err == nil })
	if errors.Is(err, ErrSpace) {
		for _, p := range rep.pulls {
			rep.faults[p.Image] = Fault{Space, "not pulled, as there is too little space"}
		}
	}
	err = r.publish(rep)
	return r.previous, err
}

// Look says how things stand, with what the last pass found out; it changes
// nothing. busy says that another process makes a pass.
func (r *Reconciler) Look(ctx context.Context, busy bool) (Status, error) {
	configErr := r.configure()
	o := r.defaults()
	n, err := r.observe(ctx, o)
	if ctx.Err() != nil {
		return Status{}, ctx.Err()
	}
	rep := newReport(o, configErr, err)
	rep.nodeState, rep.reloadDue = n, r.previous.ReloadDue
	r.stores(ctx, &rep)
	rep = rep.recall(r.previous, busy)
	if err == nil && !rep.pending {
		rep.problems = append(rep.problems, r.Pins.Conflict(n.pins))
	}
	return rep.status(r.previous, time.Now()), nil
}
