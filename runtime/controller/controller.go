package controller

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

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
	api, err := dynamic.NewForConfig(o.API.Config())
	if err != nil {
		return fmt.Errorf("%w: %w", cluster.ErrKubeconfig, err)
	}
	leases := api.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"})
	l := &lease{api: leases.Namespace(o.Namespace), identity: o.Identity, duration: o.Lease, log: o.Log}
	l.hold(ctx, o.lead)
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
		if !pause(ctx, o.Interval) {
			return
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
