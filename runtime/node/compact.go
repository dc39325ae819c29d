package node

import (
	"context"

	"github.com/pinbox/pinbox/runtime/stores"
)

// Compact writes the attached stores as one, at low priority; with all, the appliance's own
// store too. The new store replaces them at the next start of CRI-O. done is called with the bytes
// that were written, of all.
func (n *Node) Compact(ctx context.Context, all bool, done func(done, all int64)) (stores.Compaction, error) {
	m, roots, err := n.managerAndRoots(ctx)
	if err != nil {
		return stores.Compaction{}, err
	}
	defer lowerPriority()()
	m.DryRun = n.s.DryRun
	return m.Compact(ctx, stores.CompactOptions{
		All: all, GraphRoots: roots, CheckSpace: n.fits, Progress: done,
	})
}
