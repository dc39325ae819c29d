package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// reloadTime is how long to wait for a reload, and reloadsIn how long one takes at least.
const (
	reloadTime = time.Minute
	reloadsIn  = 20 * time.Millisecond
)

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

// stuck says why CRI-O does not pin as it was told; if nobody knows, it says just that.
func (r *Reconciler) stuck(ctx context.Context, n *nodeState, o Options) error {
	err, mispinned := r.conflict(ctx, n), n.mispinned()
	if !r.reloaded || len(mispinned) == 0 || err != nil {
		return err
	}
	return fmt.Errorf("%s after it was told to reload, CRI-O does not pin %d images as the drop-in says, such as %s",
		o.PinTimeout, len(mispinned), mispinned[0])
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

// mispinned are images in the stores that are not pinned though they should be,
// or that still are though we unpinned them. CRI-O pins an image by any of its
// names; what others pin is theirs.
func (n nodeState) mispinned() []string {
	pins := map[string]bool{n.pause: true}
	for _, name := range n.others {
		pins[name] = true
	}
	var names []string
	for _, img := range n.pins {
		name := img.String()
		pins[name] = true
		if pinned, there := n.present[name]; there && !pinned {
			names = append(names, name)
		}
	}
	for _, s := range n.stored {
		wanted := slices.ContainsFunc(s.Names, func(name string) bool { return pins[name] })
		ours := slices.ContainsFunc(s.Names, func(name string) bool { return slices.Contains(n.unpinned, name) })
		if s.Pinned && ours && !wanted {
			names = append(names, s.Names[0])
		}
	}
	return names
}

// upToDate says that every image is in a store, and CRI-O pins it by the drop-in.
func (n nodeState) upToDate() bool {
	return len(n.missing()) == 0 && n.pinsApplied() && n.dropInCurrent()
}

// dropInCurrent says that the drop-in is as it is to be. While there is nothing to pin,
// there need not be one.
func (n nodeState) dropInCurrent() bool {
	return len(n.pins) == 0 && len(n.current) == 0 || n.exact && slices.Equal(n.current, n.pins)
}

// allPinned says that every image of the sets is there and pinned.
func (n nodeState) allPinned() bool {
	return !slices.ContainsFunc(n.want, func(img pinset.Image) bool { return !n.present[img.String()] })
}

// pinsApplied says that CRI-O pins as the drop-in is to say.
func (n nodeState) pinsApplied() bool { return len(n.mispinned()) == 0 }

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
