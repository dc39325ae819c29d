package node

import (
	"context"

	"github.com/pinbox/pinbox/runtime/stores"
)

// Verify reads layers of the mounted stores again, at low priority. It changes nothing.
func (n *Node) Verify(ctx context.Context, v stores.VerifyOptions) (stores.Verified, error) {
	m, err := n.manager()
	if err != nil {
		return stores.Verified{}, err
	}
	defer lowerPriority()()
	return m.Verify(ctx, v)
}
