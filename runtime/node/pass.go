package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/runtime/watch"
)

// pollInterval is how often the folder of sets is read if inotify cannot watch it.
const pollInterval = 5 * time.Second

// Pass makes one pass. If another process makes one, it waits for that.
func Pass(ctx context.Context, o Options) (runtime.Status, error) {
	r, end, err := lockedReconciler(ctx, o)
	if err != nil {
		return runtime.Status{}, err
	}
	defer end()
	return r.Pass(ctx)
}

// Run makes a pass whenever the sets change, and one in every interval, until ctx ends; an
// interval of 0 is the default.
func Run(ctx context.Context, o Options, interval time.Duration, log *slog.Logger) error {
	r, end, err := lockedReconciler(ctx, o)
	if err != nil {
		return err
	}
	defer end()
	o = o.complete()
	changes := watch.Changes(ctx, o.Sets, pollInterval)
	if o.Metrics != "" {
		metrics, err := serveMetrics(ctx, o.Metrics, log)
		if err != nil {
			return err
		}
		also(r, func(s runtime.Status) { metrics.status.Store(&s) })
	}
	if o.Kubeconfig != "" {
		owner, _ := o.owner() // the reconciler has checked it
		statuses, report := cluster.Latest()
		also(r, report)
		ofCluster, err := cluster.Follow(ctx, cluster.Options{
			Kubeconfig: o.Kubeconfig, Node: o.Node, File: clusterFile(o), Jitter: o.Jitter, Log: log, Statuses: statuses,
			Condition: o.Condition, Operator: owner == runtime.MCO,
		})
		if err != nil {
			return fmt.Errorf("follow the cluster: %w", err)
		}
		changes = watch.Merge(ctx, changes, ofCluster)
	}
	agent := runtime.Agent{
		Reconciler: r, Service: systemd.Service{}, Log: log, Changes: changes, Interval: interval,
	}
	agent.Run(ctx)
	return nil
}

// also hands each status that is published to another function first.
func also(r *runtime.Reconciler, do func(runtime.Status)) {
	publish := r.Publish
	r.Publish = func(s runtime.Status) error { do(s); return publish(s) }
}

// Plan returns what a pass would do. It changes nothing.
func Plan(ctx context.Context, o Options) (runtime.Plan, error) {
	o.readOnly = true
	r, end, err := NewReconciler(o)
	if err != nil {
		return runtime.Plan{}, err
	}
	defer end()
	return r.Plan(ctx)
}

// lockedReconciler returns a reconciler, and takes the lock of passes. The caller calls end.
func lockedReconciler(ctx context.Context, o Options) (r *runtime.Reconciler, end func(), err error) {
	release, err := o.complete().lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	r, closeClient, err := NewReconciler(o)
	if err != nil {
		release()
		return nil, nil, err
	}
	return r, func() { closeClient(); release() }, nil
}
