package node

import (
	"context"
	"errors"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
)

const (
	// baseInterval is the time between two attempts to attach a store whose base is missing.
	baseInterval = time.Second
	// statusInterval is the time between two looks at a pass of another process.
	statusInterval = 200 * time.Millisecond
)

// Attach brings a store to the node, and makes its release current. ApplySets has its images
// pinned.
func Attach(ctx context.Context, o Options, a stores.AttachOptions) (stores.Attached, error) {
	o = o.complete()
	m, err := o.manager()
	if err != nil {
		return stores.Attached{}, err
	}
	a.CheckSpace = o.fits
	return o.attach(ctx, m, a)
}

// attach waits for the base of a store that was offered: of two media that are in when the
// machine boots, the one with the base may come second.
func (o Options) attach(ctx context.Context, m stores.Manager, a stores.AttachOptions) (stores.Attached, error) {
	for deadline, tries := time.Now().Add(o.Wait), 1; ; tries++ {
		attached, err := m.Attach(ctx, a)
		if !a.Auto || !errors.Is(err, stores.ErrNoBase) || time.Now().After(deadline) {
			return attached, err
		}
		if tries == 1 {
			o.Waiting(err)
		}
		select {
		case <-ctx.Done():
			return attached, ctx.Err()
		case <-time.After(baseInterval):
		}
	}
}

// Rollback makes the release before the current one current. ApplySets has its images pinned.
func Rollback(ctx context.Context, o Options) (stores.Release, error) {
	m, err := o.complete().manager()
	if err != nil {
		return stores.Release{}, err
	}
	return m.Rollback(ctx)
}

// ApplySets has the images of the current sets pinned: by a pass, or by the process that makes
// passes already. That one may end before it has seen these sets.
func ApplySets(ctx context.Context, o Options) (runtime.Status, error) {
	o = o.complete()
	if previous, err := statusFile(o.Status).load(); err == nil && len(o.Pools) == 0 {
		o.Pools = previous.Pools
	}
	once := o
	once.Wait = 0
	for deadline := time.Now().Add(o.Wait); ; {
		r, end, err := lockedReconciler(ctx, once)
		if err == nil {
			defer end()
			r.Wait = o.Wait
			return r.Pass(ctx)
		}
		if !errors.Is(err, ErrBusy) {
			return runtime.Status{}, err
		}
		status, err := Status(ctx, o)
		if err != nil || status.Healthy() || time.Now().After(deadline) {
			return status, err
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-time.After(statusInterval):
		}
	}
}
