package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Sets reads the node's sets. What it gives beside an error still counts.
	Sets func() ([]pinset.Set, error)
	// Publish puts the status where others read it.
	Publish func(Status) error
	Options
	Hooks Hooks

	// previous is the status that was published last.
	previous Status
	// reloaded says that CRI-O has read the drop-in since this process or another
	// last wrote it. A new process cannot know, so the first pass with anything to
	// do reloads: one that died between writing and reloading must not lose it.
	reloaded bool
}

// Options of a pass. The zero value works.
type Options struct {
	// Node is the name that messages have.
	Node   string
	Limits Limits
	// Owner is MCO where a pass only reports.
	Owner Owner
	// Parallel pulls; 0 means 4.
	Parallel int
	// Prune removes images that no set asks for any more and no container uses.
	Prune bool
	// Retry of pulls.
	Retry Retry
	// Stall is how long nothing may arrive before pulls start anew; 0 means 5
	// minutes.
	Stall time.Duration
	// Settle is how long CRI-O may take to pin what it was told; 0 means 15 seconds.
	Settle time.Duration
	// Wait is how long CRI-O may take to answer; 0 means 10 seconds.
	Wait time.Duration
	// Often is how often progress is published; 0 means every 2 seconds.
	Often time.Duration
}

func (o Options) defaults() Options {
	def := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	def(&o.Stall, 5*time.Minute)
	def(&o.Settle, 15*time.Second)
	def(&o.Wait, 10*time.Second)
	def(&o.Often, 2*time.Second)
	def(&o.Retry.First, time.Second)
	def(&o.Retry.Longest, 30*time.Second)
	if o.Retry.Tries == 0 {
		o.Retry.Tries = 5
	}
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	if o.Owner == "" {
		o.Owner = Pinbox
	}
	o.Limits.Node = o.Node
	return o
}

// Hooks tell of a pass; each may be nil.
type Hooks struct {
	Planned func(Plan)
	Pinned  func([]pinset.Image)
	Pulled  func(Pull, time.Duration)
	// Failed tells of an attempt, and when the next one is due; never if it is 0.
	Failed func(pinset.Image, Fault, time.Duration)
	Pruned func(pinset.Image)
}

// Continue takes up what an earlier process has published.
func (r *Reconciler) Continue(previous Status) { r.previous = previous }

// Pass makes the node have what its sets want, and publishes how that went. The
// space is checked first, then images are pinned, then pulled: so the kubelet
// never removes one between its pull and its pin, and nothing is touched when it
// cannot end well. An error means that ctx ended, or that publishing failed.
func (r *Reconciler) Pass(ctx context.Context) (Status, error) {
	o := r.defaults()
	rep := report{owner: o.Owner, node: o.Node, faults: map[pinset.Image]Fault{}, running: map[pinset.Image]bool{}}
	var err error
	if rep.world, err = r.look(ctx); err != nil {
		return r.end(ctx, rep, err)
	}
	if o.Owner == MCO || len(rep.missing()) == 0 && rep.asPinned() && rep.written() {
		return r.finish(ctx, rep, o)
	}
	plan, err := r.plan(ctx, rep.world)
	if err != nil {
		return r.end(ctx, rep, err)
	}
	rep.pulls, rep.faults, rep.problems = plan.Pulls, plan.Unknown, plan.Problems
	call(r.Hooks.Planned, plan)
	if err := r.fits(plan.Root, plan.Pulls, o); err != nil {
		return r.end(ctx, rep, err)
	}
	rep.working = true
	if err := r.pin(ctx, &rep, o); err != nil {
		return r.end(ctx, rep, err)
	}
	rep.problems = append(rep.problems, r.pull(ctx, plan.Root, &rep, o))
	return r.settle(ctx, rep, o)
}

// Plan says what a pass would do, and why it could not; it changes nothing.
func (r *Reconciler) Plan(ctx context.Context) (Plan, []Claim, error) {
	w, err := r.look(ctx)
	if err != nil {
		return Plan{}, nil, err
	}
	plan, err := r.plan(ctx, w)
	if err != nil {
		return Plan{}, nil, err
	}
	claims, err := r.claims(plan.Root, plan.Pulls, r.defaults().Parallel)
	if err != nil {
		return plan, nil, err
	}
	return plan, claims, errors.Join(w.broken, r.fits(plan.Root, plan.Pulls, r.defaults()))
}

func (r *Reconciler) plan(ctx context.Context, w world) (Plan, error) {
	p := Plan{Pins: w.pins, Rewrite: !w.written(), Unpin: without(w.current, w.pins), Unknown: map[pinset.Image]Fault{}}
	missing := w.missing()
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
		for _, img := range lock.Images {
			known[img.Pin] = img
		}
	}
	locked, errs := make([]pinset.LockedImage, len(images)), make([]error, len(images))
	var group errgroup.Group
	group.SetLimit(8)
	for i, img := range images {
		var ok bool
		if locked[i], ok = known[img.String()]; ok {
			continue
		}
		group.Go(func() error {
			locked[i], errs[i] = r.manifest(ctx, img)
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

// manifest asks a registry as often as a pull would.
func (r *Reconciler) manifest(ctx context.Context, img pinset.Image) (pinset.LockedImage, error) {
	retry := r.defaults().Retry
	for tries := 1; ; tries++ {
		locked, err := r.Manifests.Image(ctx, img)
		if err == nil || !Classify(err).Passing() || tries >= retry.Tries || sleep(ctx, retry.after(tries)) != nil {
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
	if err := r.publish(*rep); err != nil { // what is unpinned is on record before it is
		return err
	}
	if r.reloaded && rep.written() && (rep.asPinned() || r.Pins.Judge(rep.pins) != nil) {
		return nil
	}
	r.reloaded = false
	reloaded, err := r.Pins.Apply(ctx, rep.pins)
	if err != nil || !reloaded {
		return err
	}
	r.reloaded = true
	call(r.Hooks.Pinned, rep.pins)
	return r.waitPinned(ctx, &rep.world, o.Settle)
}

// waitPinned looks until CRI-O pins as it was told. It reloads in the background,
// so there is nothing else to wait for. What stands against it is reported at
// the end of the pass.
func (r *Reconciler) waitPinned(ctx context.Context, w *world, patience time.Duration) error {
	for deadline, pause := time.Now().Add(patience), 20*time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := w.list(ctx, r.Images, r.previous.Unpinned); err != nil {
			return err
		}
		if w.asPinned() || time.Now().After(deadline) || r.against(ctx, w) != nil {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// against is what keeps CRI-O from pinning as it was told.
func (r *Reconciler) against(ctx context.Context, w *world) error {
	err := r.Pins.Judge(w.pins)
	if w.asPinned() {
		return err // whatever it once refused
	}
	return errors.Join(err, r.Pins.Refusal(ctx))
}

// settle looks once more at the end of a pass that has changed something.
func (r *Reconciler) settle(ctx context.Context, rep report, o Options) (Status, error) {
	if err := r.waitPinned(ctx, &rep.world, o.Settle); err != nil {
		return r.end(ctx, rep, err)
	}
	return r.finish(ctx, rep, o)
}

// finish prunes, judges and publishes.
func (r *Reconciler) finish(ctx context.Context, rep report, o Options) (Status, error) {
	if o.Owner == Pinbox && o.Prune {
		rep.problems = append(rep.problems, r.prune(ctx, &rep.world))
	}
	if len(rep.missing()) == 0 {
		rep.problems = append(rep.problems, r.Manifests.Forget())
	}
	return r.end(ctx, rep, r.against(ctx, &rep.world))
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

// Look says how things stand, with what the last pass found out; it changes nothing.
func (r *Reconciler) Look(ctx context.Context) (Status, error) {
	w, err := r.look(ctx)
	if err != nil {
		return Status{}, err
	}
	rep := report{world: w, owner: r.defaults().Owner, node: r.Node, problems: []error{r.Pins.Judge(w.pins)}}
	return rep.recall(r.previous).status(r.previous, time.Now()), nil
}
