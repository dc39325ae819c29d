package runtime

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Reconciler makes passes. A pass observes the node first and does what is left to do, so the next
// pass completes one that was killed at any point.
type Reconciler struct {
	Runtime   Runtime
	Images    Images
	Pins      Pins
	Manifests Manifests
	Disk      Disk
	// Aside may be nil.
	Aside Aside
	// Configure reads before each pass what may have changed on the node: its owner, limits,
	// credentials. nil is fine.
	Configure func(context.Context, *Reconciler) error
	// Sets reads the node's sets. The sets that it returns with an error still count.
	Sets func() ([]pinset.Set, error)
	// Publish writes the status for others to read.
	Publish func(Status) error
	// Stores mounts the attached stores, or only reads their state, and returns their status.
	// nil is fine.
	Stores func(context.Context) ([]StoreStatus, error)
	// TakeStore attaches the store that a set names. nil is fine: then all images are pulled.
	TakeStore func(ctx context.Context, name string) error
	// OwnStore returns how the appliance's own store is verified; nil if none is mounted. The
	// function may be nil.
	OwnStore func(context.Context) (*VerityStatus, error)
	// Program returns which pinbox-node runs. nil is fine.
	Program func() (ProgramStatus, error)
	// Cluster returns what the node knows of the sets of its cluster; nil if it follows none. The
	// function may be nil.
	Cluster func() *ClusterStatus
	// Volumes has the images of image volumes, and CopyVolumes means that a pass copies those that it lacks.
	// nil is fine.
	Volumes     Volumes
	CopyVolumes bool
	Options
	Hooks Hooks

	// previous is the status that was published last.
	previous Status
	// reloaded reports that this process has reloaded CRI-O since it last wrote the drop-in. The
	// first pass with anything to do reloads in any case; a process that was killed between
	// writing and reloading has published ReloadDue.
	reloaded bool
	// tries are the last attempts to attach the stores that sets name.
	tries map[string]storeTry
}

// Continue continues from the status that an earlier process has published.
func (r *Reconciler) Continue(previous Status) { r.previous = previous }

// Pass pins and pulls the images that the sets ask for, and publishes the result. It checks
// the space first, then pins, then pulls: so nothing changes if there is too little space, and
// the kubelet never removes an image between its pull and its pin. An error means that
// ctx ended, or that the status could not be published.
func (r *Reconciler) Pass(ctx context.Context) (Status, error) {
	configErr := r.configure(ctx)
	o, err := r.complete()
	if err != nil {
		return r.previous, err
	}
	rep := newReport(o, configErr)
	rep.before, rep.totals, rep.tries = r.previous, r.previous.Totals, r.tries
	r.stores(ctx, &rep)
	if rep.nodeState, err = r.observe(ctx, o); err != nil {
		return r.end(ctx, rep, errors.Join(err, r.pinUnlisted(ctx, rep.nodeState, o)))
	}
	if o.Owner == MCO || rep.upToDate() && !r.previous.ReloadDue {
		return r.finish(ctx, rep, o)
	}
	rep.working = true
	if err := r.publish(rep); err != nil { // the plan may wait for registries
		return r.previous, err
	}
	if stores, brought := storesDue(r, rep); len(stores) > 0 {
		takeStores(ctx, r, &rep, stores, func() {
			if others := without(rep.missing(), brought); len(others) > 0 {
				problems := rep.problems
				_, _ = r.fill(ctx, &rep, o, others) // below, what failed is tried again
				rep.problems = problems
			}
		})
		if rep.nodeState, err = r.observe(ctx, o); err != nil {
			return r.end(ctx, rep, err)
		}
	}
	pulled, err := r.fill(ctx, &rep, o, rep.missing())
	switch {
	case err != nil:
		return r.end(ctx, rep, err)
	case !pulled: // nothing has changed since the last list
		return r.finish(ctx, rep, o)
	}
	return r.waitAndFinish(ctx, rep, o)
}

// fill pins the images of the sets and pulls missing ones, if there is enough space. pulled reports whether there was
// anything to pull.
func (r *Reconciler) fill(
	ctx context.Context, rep *report, o Options, missing []pinset.Image,
) (pulled bool, err error) {
	plan, err := r.plan(ctx, rep.nodeState, missing, o)
	if err != nil {
		return false, err
	}
	rep.pulls, rep.faults = append(plan.Pulls, unknownPulls(plan.Unresolved)...), plan.Unresolved
	call(r.Hooks.Planned, plan)
	if err := (spaceCheck{r.Disk, plan.GraphRoot, o.Limits, o.Parallel}).check(rep.pulls); err != nil {
		return false, err
	}
	if err := r.pin(ctx, rep, o); err != nil {
		return false, err
	}
	rep.pulls = append(rep.pulls, r.misnamed(&rep.nodeState)...)
	if len(rep.pulls) == 0 && len(rep.faults) == 0 {
		return false, nil
	}
	rep.problems = append(rep.problems, r.pull(ctx, plan.GraphRoot, rep, o))
	return true, nil
}

func (r *Reconciler) configure(ctx context.Context) error {
	if r.Configure == nil {
		return nil
	}
	return r.Configure(ctx, r)
}

// waitAndFinish lists the images once more, after pulls.
func (r *Reconciler) waitAndFinish(ctx context.Context, rep report, o Options) (Status, error) {
	timeout := o.PinTimeout
	if rep.done == 0 { // pin has waited already
		timeout = 0
	}
	if err := r.waitPinned(ctx, &rep.nodeState, timeout); err != nil {
		return r.end(ctx, rep, err)
	}
	return r.finish(ctx, rep, o)
}

// finish copies image volumes, prunes, checks that the pins are applied, and ends the pass.
func (r *Reconciler) finish(ctx context.Context, rep report, o Options) (Status, error) {
	_, err := r.copyVolumes(ctx, rep.nodeState, o)
	rep.problems = append(rep.problems, err, artifactsProblem(r.Disk, rep.nodeState))
	if o.Owner == MCO && !rep.allPinned() {
		rep.pending = true // the operator pins after it has pulled all images
		return r.end(ctx, rep, nil)
	}
	if o.Owner == Pinbox && o.Prune {
		rep.problems = append(rep.problems, pruner{r.Runtime, r.Images, r.Disk, r.Hooks.Pruned}.prune(ctx, &rep.nodeState))
	}
	if len(rep.missing()) == 0 {
		r.Manifests.Forget()
	}
	return r.end(ctx, rep, r.stuck(ctx, &rep.nodeState, o))
}

// end publishes the status at the end of a pass; not if ctx has ended, since the caller that
// cancelled it starts the next pass.
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

// Status returns the status of the node, with the errors and the progress of the last pass. It
// changes nothing. busy reports that another process makes a pass.
func (r *Reconciler) Status(ctx context.Context, busy bool) (Status, error) {
	configErr := r.configure(ctx)
	o := r.defaults()
	n, err := r.observe(ctx, o)
	if ctx.Err() != nil {
		return Status{}, ctx.Err()
	}
	rep := newReport(o, configErr, err)
	n.space = measure(r.Disk, n.graphRoot)
	rep.nodeState, rep.reloadDue, rep.totals = n, r.previous.ReloadDue, r.previous.Totals
	r.stores(ctx, &rep)
	rep = rep.continueFrom(r.previous, busy)
	if err == nil && !rep.pending {
		rep.problems = append(rep.problems, r.Pins.Check(n.pins))
	}
	volumes, volumesErr := findCopies(ctx, r, n)
	rep.problems = append(rep.problems, volumesErr, volumes.err(r.CopyVolumes), artifactsProblem(r.Disk, n))
	return rep.status(r.previous, time.Now()), nil
}
