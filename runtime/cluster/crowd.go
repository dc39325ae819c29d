package cluster

import (
	"context"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// crowd is what a node knows of how many others there are.
type crowd struct {
	// nodes of the cluster, 0 if that is not known.
	nodes atomic.Int64
}

// count asks how many nodes the cluster has: it lists the first, and the API says how many follow. If it does not,
// what was known stays.
func (c *crowd) count(ctx context.Context, nodes metadata.Getter) {
	list, err := nodes.List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case err != nil || list.Continue != "" && list.RemainingItemCount == nil:
	case list.RemainingItemCount != nil:
		c.nodes.Store(int64(len(list.Items)) + *list.RemainingItemCount)
	default:
		c.nodes.Store(int64(len(list.Items)))
	}
}
