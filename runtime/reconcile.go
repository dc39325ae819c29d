package runtime

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Reconciler makes passes. A pass observes the node first and does what is left to do, so the next
// pass completes one that was killed at any point.
type Reconciler struct {
	Runtime Runtime
	Images  Images
	Pins    Pins
	Node    Node
	// Stores of the node. With nil, all images are pulled.
	Stores Stores
	// Log has what passes do; nil for nothing.
	Log *slog.Logger

	// previous is the status that was published last.
	previous Status
	// reloaded reports that this process has reloaded CRI-O since it last wrote the drop-in. The
	// first pass with anything to do reloads in any case; a process that was killed between
	// writing and reloading has published ReloadDue.
	reloaded bool
	// tries are the last attempts to attach the stores that sets name.
	tries map[string]storeTry
	// service is told the summary of each status; nil if there is none.
	service Service
}

// Continue continues from the status that an earlier process has published.
func (r *Reconciler) Continue(previous Status) { r.previous = previous }

// pass is what a pass works with.
type pass struct {
	r *Reconciler
	// conf is what the node is configured with, and log that of the reconciler.
	conf Configuration
	log  *slog.Logger
	rep  report
}

// begin reads what the node is configured with. The error is that of invalid options.
func (r *Reconciler) begin(ctx context.Context) (*pass, error) {
	conf, configErr := r.Node.Configure(ctx)
	conf.Options = conf.Options.defaults()
	p := &pass{r: r, conf: conf, log: r.Log, rep: newReport(conf.Options, configErr)}
	p.rep.wanted, p.rep.configured = conf.Wanted, conf.Warnings
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	return p, conf.Options.validate()
}

// Pass pins and pulls the images that the sets ask for, and publishes the result. It checks
// the space first, then pins, then pulls: so nothing changes if there is too little space, and
// the kubelet never removes an image between its pull and its pin. An error means that
// ctx ended, or that the status could not be published.
func (r *Reconciler) Pass(ctx context.Context) (Status, error) {
	p, err := r.begin(ctx)
	if err != nil {
		return r.previous, err
	}
	rep, operator := &p.rep, p.conf.Options.Owner == MCO
	rep.before, rep.totals, rep.tries = r.previous, r.previous.Totals, r.tries

	// What the node has, and what it shall have.
	p.reconcileStores(ctx)
	rep.sets, rep.broken = r.Node.Sets()
	if err := p.observe(ctx); err != nil {
		return p.end(ctx, errors.Join(err, p.pinUnlisted(ctx)))
	}

	// What is missing: out of the stores that sets name, then from registries.
	if !operator && (!rep.upToDate() || r.previous.ReloadDue) {
		rep.working = true
		if err := p.publish(); err != nil { // the plan may wait for registries
			return r.previous, err
		}
		if stores, brought := p.storesDue(); len(stores) > 0 {
			taken := p.takeStores(ctx, stores)
			// A slow server does not delay what no store brings.
			if others := without(rep.missing(), brought); len(others) > 0 {
				problems := rep.problems
				_, _ = p.fill(ctx, others) // below, what failed is tried again
				rep.problems = problems
			}
			rep.tries = <-taken
			r.tries = rep.tries
			state, _ := r.Stores.Reconcile(ctx) // the next pass reports the error
			rep.stores = state.Stores
			rep.sets, rep.broken = r.Node.Sets()
			if err := p.observe(ctx); err != nil {
				return p.end(ctx, err)
			}
		}
		pulled, err := p.fill(ctx, rep.missing())
		if err != nil {
			return p.end(ctx, err)
		}
		if pulled {
			timeout := p.conf.Options.PinTimeout
			if rep.done == 0 { // pin has waited already
				timeout = 0
			}
			if err := p.waitPinned(ctx, timeout); err != nil {
				return p.end(ctx, err)
			}
		}
	}

	// What follows from what is there now.
	_, err = p.copyVolumes(ctx)
	rep.problems = append(rep.problems, err, artifactsProblem(p.conf.Disk, rep.nodeState))
	if operator && !rep.allPinned() {
		rep.pending = true // the operator pins after it has pulled all images
		return p.end(ctx, nil)
	}
	if !operator && p.conf.Options.Prune {
		rep.problems = append(rep.problems, p.prune(ctx))
	}
	if len(rep.missing()) == 0 {
		p.conf.Manifests.Forget()
	}
	return p.end(ctx, p.stuck(ctx))
}

// fill pins the images of the sets and pulls missing ones, if there is enough space. pulled reports whether there was
// anything to pull.
func (p *pass) fill(ctx context.Context, missing []pinset.Image) (pulled bool, err error) {
	rep := &p.rep
	plan, err := p.plan(ctx, missing)
	if err != nil {
		return false, err
	}
	rep.pulls, rep.faults = append(plan.Pulls, unknownPulls(plan.Unresolved)...), plan.Unresolved
	p.logPlan(plan)
	if err := p.space(plan.GraphRoot).check(rep.pulls); err != nil {
		return false, err
	}
	if err := p.pin(ctx); err != nil {
		return false, err
	}
	rep.pulls = append(rep.pulls, p.misnamed()...)
	if len(rep.pulls) == 0 && len(rep.faults) == 0 {
		return false, nil // nothing has changed since the last list
	}
	rep.problems = append(rep.problems, p.pull(ctx, plan.GraphRoot))
	return true, nil
}

func (p *pass) logPlan(plan Plan) {
	need := plan.Need()
	p.log.Info("planned", "pins", len(plan.Pins), "unpin", len(plan.Unpin), "pull", len(plan.Pulls), "fetch", need.Fetch,
		"unpacked", need.Unpacked, "estimated", need.Estimated)
	for _, err := range plan.Problems {
		if err != nil {
			p.log.Warn("the plan is less exact", "error", err)
		}
	}
}

// space is the check of the space for pulls to the store at the graph root.
func (p *pass) space(graphRoot string) spaceCheck {
	o := p.conf.Options
	return spaceCheck{disk: p.conf.Disk, graphRoot: graphRoot, limits: o.Limits, parallel: o.Parallel}
}

// end publishes the status at the end of a pass; not if ctx has ended, since the caller that
// cancelled it starts the next pass.
func (p *pass) end(ctx context.Context, err error) (Status, error) {
	rep := &p.rep
	if ctx.Err() != nil {
		return p.r.previous, ctx.Err()
	}
	rep.working, rep.progress = false, nil
	rep.problems = slices.DeleteFunc(append(rep.problems, err), func(err error) bool { return err == nil })
	if errors.Is(err, ErrSpace) {
		for _, pull := range rep.pulls {
			rep.faults[pull.Image] = Fault{Space, "not pulled, as there is too little space"}
		}
	}
	err = p.publish()
	return p.r.previous, err
}

// Status returns the status of the node, with the errors and the progress of the last pass. It
// changes nothing. busy reports that another process makes a pass.
func (r *Reconciler) Status(ctx context.Context, busy bool) (Status, error) {
	p, _ := r.begin(ctx) // a pass reports invalid options
	p.rep.sets, p.rep.broken = r.Node.Sets()
	err := p.observe(ctx)
	if ctx.Err() != nil {
		return Status{}, ctx.Err()
	}
	n := p.rep.nodeState
	p.rep.problems = append(p.rep.problems, err)
	p.rep.space = measure(p.conf.Disk, n.graphRoot)
	p.rep.reloadDue, p.rep.totals = r.previous.ReloadDue, r.previous.Totals
	p.reconcileStores(ctx)
	p.rep = p.rep.continueFrom(r.previous, busy)
	if err == nil && !p.rep.pending {
		p.rep.problems = append(p.rep.problems, r.Pins.Check(n.pins))
	}
	volumes, volumesErr := p.findCopies(ctx)
	p.rep.problems = append(p.rep.problems, volumesErr, volumes.err(p.conf.CopyVolumes), artifactsProblem(p.conf.Disk, n))
	return p.rep.status(r.previous, time.Now()), nil
}
