package runtime

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Reconciler makes passes. Each looks at the world first and does what is left
// to do, so one that was killed at any point is made good by the next.
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
	o := r.defaults()
	rep := report{problems: []error{configErr}, owner: o.Owner, node: o.Node, pools: o.Pools, faults: map[pinset.Image]Fault{}, running: map[pinset.Image]bool{}}
	var err error
	if err := o.validate(); err != nil {
		return r.previous, err
	}
	r.stores(ctx, &rep)
	if rep.nodeState, err = r.observe(ctx); err != nil {
		return r.end(ctx, rep, err)
	}
	if o.Owner == MCO || !r.previous.ReloadDue && len(rep.missing()) == 0 && rep.pinsApplied() && rep.dropInCurrent() {
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

// misnamed are images that are in a store under other names: CRI-O finds them by
// their digests, but pins by names, and a pull adds the name.
func (r *Reconciler) misnamed(n *nodeState) []Pull {
	if n.pinsApplied() || r.Pins.Conflict(n.pins) != nil {
		return nil
	}
	var all []Pull
	for _, img := range n.want {
		if pinned, there := n.present[img.String()]; there && !pinned {
			all = append(all, Pull{Image: img})
		}
	}
	return all
}

func (r *Reconciler) configure() error {
	if r.Configure == nil {
		return nil
	}
	return r.Configure(r)
}

// Plan says what a pass would do; it changes nothing. What would keep the pass from
// ending well is among the problems of the plan.
func (r *Reconciler) Plan(ctx context.Context) (Plan, error) {
	if err := errors.Join(r.configure(), r.validate()); err != nil {
		return Plan{}, err
	}
	n, err := r.observe(ctx)
	if err != nil {
		return Plan{}, err
	}
	o := r.defaults()
	if o.Owner == MCO {
		return Plan{Owner: MCO, Pins: n.pins}, n.broken
	}
	plan, err := r.plan(ctx, n)
	if err != nil {
		return Plan{}, err
	}
	if plan.Claims, err = r.claims(plan.Root, plan.Pulls, o.Parallel); err != nil {
		return Plan{}, err
	}
	stands := r.fits(plan.Root, plan.Pulls, o)
	if !plan.Rewrite { // else it speaks of the drop-in as it is
		stands = errors.Join(stands, r.Pins.Conflict(n.pins))
	}
	if plan.Problem = errors.Join(n.broken, stands); plan.Problem == nil && len(plan.Unknown) > 0 {
		plan.Problem = fmt.Errorf("%d images cannot be looked up", len(plan.Unknown))
	}
	return plan, nil
}

func (r *Reconciler) plan(ctx context.Context, n nodeState) (Plan, error) {
	p := Plan{Pins: n.pins, Owner: Pinbox, Rewrite: !n.dropInCurrent(), Reload: !n.dropInCurrent() || !n.pinsApplied(), Unpin: without(n.current, n.pins), Unknown: map[pinset.Image]Fault{}}
	missing := n.missing()
	if len(missing) == 0 {
		return p, nil
	}
	var err error
	if p.Root, err = r.Runtime.Root(ctx); err != nil {
		return Plan{}, err
	}
	// Without a lock or a record the node knows less, and counts more.
	stores, beside, lockErr := r.Disk.Locks()
	layers, layerErr := r.Disk.Layers(p.Root)
	p.Problems = []error{lockErr, layerErr}
	var locked []pinset.LockedImage
	locked, p.Unknown = r.resolve(ctx, missing, slices.Concat(stores, beside))
	p.Pulls, err = pulls(locked, layers)
	return p, err
}

// resolve tells what images are made of: the locks know, or the registries do.
func (r *Reconciler) resolve(ctx context.Context, images []pinset.Image, locks []pinset.Lock) ([]pinset.LockedImage, map[pinset.Image]Fault) {
	known := map[string]pinset.LockedImage{}
	for _, lock := range locks {
		if _, arch, _ := lock.Platform.Split(); arch != goruntime.GOARCH {
			continue // the images of another platform have other layers
		}
		for _, img := range lock.Images {
			known[img.Pin] = img
		}
	}
	locked, errs := make([]pinset.LockedImage, len(images)), make([]error, len(images))
	var group errgroup.Group
	var dead sync.Map // hosts
	group.SetLimit(8)
	for i, img := range images {
		var ok bool
		if locked[i], ok = known[img.String()]; ok {
			continue
		}
		group.Go(func() error {
			locked[i], errs[i] = r.manifest(ctx, img, &dead)
			return nil
		})
	}
	_ = group.Wait() // the errors are each image's own
	unknown := map[pinset.Image]Fault{}
	for i, err := range errs {
		if err != nil {
			unknown[images[i]] = fault(err)
		}
	}
	return slices.DeleteFunc(locked, func(l pinset.LockedImage) bool { return l.Pin == "" }), unknown
}

// ask has a deadline, other than a pull: a manifest is small.
func (r *Reconciler) ask(ctx context.Context, img pinset.Image) (pinset.LockedImage, error) {
	ctx, cancel := context.WithTimeout(ctx, min(askTime, r.defaults().Stall))
	defer cancel()
	locked, err := r.Manifests.Image(ctx, img)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrStalled, err)
	}
	return locked, err
}

// How long to wait for an answer that is small, and for a reload; and how long one
// takes at least.
const (
	askTime    = 30 * time.Second
	reloadTime = time.Minute
	reloadsIn  = 20 * time.Millisecond
)

// manifest asks a registry as often as a pull would; one that has failed so often
// for another image is dead, and is asked once.
func (r *Reconciler) manifest(ctx context.Context, img pinset.Image, dead *sync.Map) (pinset.LockedImage, error) {
	host, _, _ := strings.Cut(img.Repository, "/")
	retry := r.defaults().Retry
	for tries := 1; ; tries++ {
		locked, err := r.ask(ctx, img)
		if err == nil || !Classify(err).Passing() {
			return locked, err
		}
		_, given := dead.Load(host)
		if given || tries >= retry.Tries || sleep(ctx, retry.after(tries)) != nil {
			if Classify(err) == Network {
				dead.Store(host, true)
			}
			return locked, err
		}
	}
}

// fits says, with numbers, why there is no space for these pulls.
func (r *Reconciler) fits(root string, pulls []Pull, o Options) error {
	all, err := r.claims(root, pulls, o.Parallel)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, o.Limits.check(c))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) claims(root string, pulls []Pull, parallel int) ([]Claim, error) {
	if len(pulls) == 0 {
		return nil, nil // a full disk does not keep anybody from unpinning
	}
	store, staging, err := r.Disk.Space(root)
	if err != nil {
		return nil, err
	}
	need, staged := demand(pulls, parallel)
	return claims(need, staged, store, staging), nil
}

// pin has CRI-O pin what it should, present or not yet.
func (r *Reconciler) pin(ctx context.Context, rep *report, o Options) error {
	if r.reloaded && rep.dropInCurrent() && (rep.pinsApplied() || r.Pins.Conflict(rep.pins) != nil) {
		return nil
	}
	// What is unpinned, and that CRI-O has yet to read it, is on record before.
	rep.reloadDue, r.reloaded = true, false
	if err := r.publish(*rep); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	reloaded, err := r.Pins.Apply(short, rep.pins)
	if err != nil || !reloaded {
		return err
	}
	rep.reloadDue, r.reloaded = false, true
	call(r.Hooks.Pinned, rep.pins)
	// A list that CRI-O makes while it reloads takes time from that, and shows the old pins.
	if err := sleep(ctx, min(reloadsIn, o.PinTimeout)); err != nil {
		return err
	}
	return r.waitPinned(ctx, &rep.nodeState, o.PinTimeout)
}

// waitPinned looks until CRI-O pins as it was told. It reloads in the background,
// so there is nothing else to wait for. What keeps CRI-O from it is reported at
// the end of the pass.
func (r *Reconciler) waitPinned(ctx context.Context, n *nodeState, timeout time.Duration) error {
	for deadline, pause := time.Now().Add(timeout), reloadsIn; ; pause = min(2*pause, time.Second) {
		if err := n.list(ctx, r.Images, r.previous.Unpinned); err != nil {
			return err
		}
		if n.pinsApplied() || time.Now().After(deadline) || r.conflict(ctx, n) != nil {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// conflict is what keeps CRI-O from pinning as it was told.
func (r *Reconciler) conflict(ctx context.Context, n *nodeState) error {
	err := r.Pins.Conflict(n.pins)
	if n.pinsApplied() {
		return err // whatever it once refused
	}
	return errors.Join(err, r.Pins.Refusal(ctx))
}

// stuck says so if CRI-O does not pin as it was told, and nobody knows why.
func (r *Reconciler) stuck(n nodeState, o Options, known error) error {
	mispinned := n.mispinned()
	if !r.reloaded || len(mispinned) == 0 || known != nil {
		return known
	}
	return fmt.Errorf("%s after it was told to reload, CRI-O does not pin %d images as the drop-in says, such as %s", o.PinTimeout, len(mispinned), mispinned[0])
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

// finish prunes, judges and publishes.
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
	return r.end(ctx, rep, r.stuck(rep.nodeState, o, r.conflict(ctx, &rep.nodeState)))
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

func (r *Reconciler) publish(rep report) error {
	r.previous = rep.status(r.previous, time.Now())
	if err := r.Publish(r.previous); err != nil {
		return fmt.Errorf("publish the status: %w", err)
	}
	return nil
}

// without gives the images of a that are not in b.
func without(a, b []pinset.Image) []pinset.Image {
	return slices.DeleteFunc(slices.Clone(a), func(img pinset.Image) bool { return slices.Contains(b, img) })
}

func call[T any](hook func(T), value T) {
	if hook != nil {
		hook(value)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Look says how things stand, with what the last pass found out; it changes
// nothing. busy says that another process makes a pass.
func (r *Reconciler) Look(ctx context.Context, busy bool) (Status, error) {
	configErr := r.configure()
	n, err := r.observe(ctx)
	if ctx.Err() != nil {
		return Status{}, ctx.Err()
	}
	rep := report{nodeState: n, reloadDue: r.previous.ReloadDue, owner: r.defaults().Owner, node: r.Node, pools: r.Pools, problems: []error{configErr, err}}
	r.stores(ctx, &rep)
	rep = rep.recall(r.previous, busy)
	if err == nil && !rep.pending {
		rep.problems = append(rep.problems, r.Pins.Conflict(n.pins))
	}
	return rep.status(r.previous, time.Now()), nil
}
