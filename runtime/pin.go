package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// reloadTimeout is the time limit of a reload, and minReloadTime the least time that it takes.
const (
	reloadTimeout = time.Minute
	minReloadTime = 20 * time.Millisecond
)

// pin makes CRI-O pin the images of the sets, including those that are not in a store yet.
func (p *pass) pin(ctx context.Context) error {
	r, rep := p.r, &p.rep
	if r.reloaded && rep.dropInCurrent() && (rep.pinsApplied() || r.Pins.Check(rep.pins) != nil) {
		return nil
	}
	// The status is published before the drop-in changes: it has the images that are unpinned, and
	// that a reload is due.
	rep.reloadDue, r.reloaded = true, false
	if err := p.publish(); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	reloaded, err := r.Pins.Apply(short, rep.pins)
	if err != nil || !reloaded {
		return err
	}
	rep.reloadDue, r.reloaded = false, true
	p.log.Info("pinned and reloaded", "images", len(rep.pins))
	// Listing the images during the reload would slow it down and return the old pins.
	if err := sleep(ctx, min(minReloadTime, p.conf.Options.PinTimeout)); err != nil {
		return err
	}
	return p.waitPinned(ctx, p.conf.Options.PinTimeout)
}

// pinUnlisted pins the images also if CRI-O answers and cannot list them: it reloads all the same, and keeps them
// from the kubelet once it can.
func (p *pass) pinUnlisted(ctx context.Context) error {
	n := &p.rep.nodeState
	if p.conf.Options.Owner == MCO || !n.unlisted || n.dropInCurrent() {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	reloaded, err := p.r.Pins.Apply(short, n.pins)
	p.r.reloaded = reloaded
	return err
}

// waitPinned lists the images until CRI-O has applied the pins. There is no event to wait for,
// since CRI-O reloads in the background. A conflict is reported at the end of the pass.
func (p *pass) waitPinned(ctx context.Context, timeout time.Duration) error {
	r, n := p.r, &p.rep.nodeState
	for deadline, pause := time.Now().Add(timeout), minReloadTime; ; pause = min(2*pause, time.Second) {
		if err := n.list(ctx, r.Images, r.previous.Unpinned, r.previous.LatePulls); err != nil {
			return err
		}
		if n.pinsApplied() || time.Now().After(deadline) || p.conflict(ctx) != nil {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// conflict returns why CRI-O cannot apply the pins.
func (p *pass) conflict(ctx context.Context) error {
	n := &p.rep.nodeState
	err := p.r.Pins.Check(n.pins)
	if n.pinsApplied() {
		return err // the refusal is of an earlier reload
	}
	return errors.Join(err, p.r.Pins.Refusal(ctx))
}

// stuck returns why CRI-O has not applied the pins: the conflict, or that the reason is unknown.
func (p *pass) stuck(ctx context.Context) error {
	err, mispinned := p.conflict(ctx), p.rep.mispinned()
	if !p.r.reloaded || len(mispinned) == 0 || err != nil {
		return err
	}
	return fmt.Errorf("%s after a reload, the pins of CRI-O differ from the drop-in for %d images, such as %s",
		p.conf.Options.PinTimeout, len(mispinned), mispinned[0])
}

// misnamed are images that are in a store under other names. CRI-O finds them by their
// digests, but pins by names; a pull adds the name.
func (p *pass) misnamed() []Pull {
	n := &p.rep.nodeState
	if n.pinsApplied() || p.r.Pins.Check(n.pins) != nil {
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

// mispinned are images in the stores that should be pinned and are not, or were unpinned and
// are still pinned. CRI-O pins an image by any of its names; pins of other drop-ins do not
// count.
func (n nodeState) mispinned() []string {
	pins := map[string]bool{n.pause: true}
	var names []string
	for _, img := range n.pins {
		name := img.String()
		pins[name] = true
		if pinned, there := n.present[name]; there && !pinned {
			names = append(names, name)
		}
	}
	for _, s := range n.stored {
		wanted := slices.ContainsFunc(s.Names, func(name string) bool {
			return pins[name] || n.others != nil && n.others(name)
		})
		ours := slices.ContainsFunc(s.Names, func(name string) bool { return slices.Contains(n.unpinned, name) })
		if s.Pinned && ours && !wanted && !isArtifact(s) {
			names = append(names, s.Names[0])
		}
	}
	return names
}

// upToDate reports that every image is in a store and pinned, and the drop-in has exactly these
// pins.
func (n nodeState) upToDate() bool {
	return len(n.missing()) == 0 && n.pinsApplied() && n.dropInCurrent()
}

// dropInCurrent reports that the drop-in has exactly the pins that it should have. Without pins it
// need not exist.
func (n nodeState) dropInCurrent() bool {
	return len(n.pins) == 0 && len(n.current) == 0 || n.exact && slices.Equal(n.current, n.pins)
}

// allPinned reports that every image of the sets is in a store and pinned.
func (n nodeState) allPinned() bool {
	return !slices.ContainsFunc(n.want, func(img pinset.Image) bool { return !n.present[img.String()] })
}

// pinsApplied reports that CRI-O pins what the drop-in should pin, and nothing that was unpinned.
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
