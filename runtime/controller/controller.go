package controller

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/pinbox/pinbox/runtime/cluster"
)

// LeaseName is the name of the Lease of the controller that leads.
const LeaseName = "pinbox-fleet-controller"

// Options of Run.
type Options struct {
	API cluster.API
	// Namespace of the Lease, and the name of this controller in it, which no other one has.
	Namespace, Identity string
	// Lease is how long a controller that leads may be silent before another one does.
	Lease time.Duration
	// Interval is the time between two looks at the nodes.
	Interval time.Duration
	// Stale is how long ago a node may have reported.
	Stale time.Duration
	Log   *slog.Logger
}

// Run advances rollouts while this controller leads, until ctx ends.
func Run(ctx context.Context, o Options) error {
	leases, err := coordination.NewForConfig(o.API.Config())
	if err != nil {
		return fmt.Errorf("%w: %w", cluster.ErrKubeconfig, err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: LeaseName, ReleaseOnCancel: true,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: LeaseName}, Client: leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		},
		// The parts are those of client-go's defaults: 15, 10 and 2 seconds.
		LeaseDuration: o.Lease, RenewDeadline: o.Lease * 2 / 3, RetryPeriod: o.Lease * 2 / 15,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: o.lead,
			OnStoppedLeading: func() {},
			OnNewLeader:      func(identity string) { o.Log.Info("leads", "controller", identity) },
		},
	})
	if err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(o.Log.Handler()))
	for ctx.Err() == nil { // who has lost the lease stands by
		elector.Run(ctx)
	}
	return nil
}

// lead looks at the rollouts until ctx ends.
func (o Options) lead(ctx context.Context) {
	said := ""
	for {
		err := o.look(ctx)
		if err == nil {
			said = ""
		} else if text := err.Error(); text != said && ctx.Err() == nil {
			o.Log.Warn("the rollouts do not go on", "error", err)
			said = text
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(o.Interval):
		}
	}
}

// look advances each rollout whose sets have changed, or that is not complete.
func (o Options) look(ctx context.Context) error {
	w, err := o.API.Wish(ctx)
	if err != nil || w.Settled() {
		return err
	}
	nodes, err := o.API.NodesFor(ctx, w)
	if err != nil {
		return err
	}
	for _, r := range w.Rollouts {
		next := r.Next(w.Targets(r.Metadata.Name), nodes, o.Stale, time.Now())
		if reflect.DeepEqual(next, r.Status) {
			continue
		}
		if next.Reason != r.Status.Reason {
			o.Log.Info("rollout", "name", r.Metadata.Name, "state", next.State, "reason", next.Reason)
		}
		r.Status = next
		if err := o.API.Advance(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
