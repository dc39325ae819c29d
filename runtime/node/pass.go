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
func (n *Node) Pass(ctx context.Context) (runtime.Status, error) {
	r, end, err := n.lockedReconciler(ctx, n.s.Wait)
	if err != nil {
		return runtime.Status{}, err
	}
	defer end()
	return r.Pass(ctx)
}

// defaultJitter is how late a pass may begin after a change in the cluster.
const defaultJitter = 10 * time.Second

// Run makes a pass whenever the sets change, and one in every interval, until ctx ends.
func (n *Node) Run(ctx context.Context, log *slog.Logger) error {
	r, end, err := n.lockedReconciler(ctx, n.s.Wait)
	if err != nil {
		return err
	}
	defer end()
	m := r.Node.(*machine)
	changes := watch.Changes(ctx, n.conf.SetsDir, pollInterval)
	if n.conf.Metrics != "" {
		if m.metrics, err = serveMetrics(ctx, n.conf.Metrics, log); err != nil {
			return err
		}
	}
	if n.conf.Kubeconfig != "" {
		jitter := defaultJitter
		if n.conf.Jitter != nil {
			jitter = time.Duration(*n.conf.Jitter)
		}
		statuses, report := cluster.Latest()
		m.report = report
		ofCluster, err := cluster.Follow(ctx, cluster.Options{
			Kubeconfig: n.conf.Kubeconfig, Node: n.conf.NodeName, File: n.clusterFile(), Jitter: jitter,
			Log: log, Statuses: statuses, Condition: n.conf.NodeCondition, Operator: n.owner() == runtime.MCO,
		})
		if err != nil {
			return fmt.Errorf("follow the cluster: %w", err)
		}
		changes = watch.Merge(ctx, changes, ofCluster)
	}
	agent := runtime.Agent{
		Reconciler: r, Service: systemd.Service{}, Log: log, Changes: changes, Interval: time.Duration(n.conf.Interval),
	}
	agent.Run(ctx)
	return nil
}

// Plan returns what a pass would do. It changes nothing.
func (n *Node) Plan(ctx context.Context) (runtime.Plan, error) {
	r, end, err := n.reconciler(true)
	if err != nil {
		return runtime.Plan{}, err
	}
	defer end()
	return r.Plan(ctx)
}

// lockedReconciler returns a reconciler, and takes the lock of passes. The caller calls end.
func (n *Node) lockedReconciler(
	ctx context.Context, wait time.Duration,
) (r *runtime.Reconciler, end func(), err error) {
	unlock, err := n.lock(ctx, wait)
	if err != nil {
		return nil, nil, err
	}
	r, closeClient, err := n.Reconciler()
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return r, func() { closeClient(); unlock() }, nil
}
