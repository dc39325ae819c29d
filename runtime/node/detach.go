package node

import (
	"context"

	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/stores"
)

// Detach removes a store to which nothing refers any more, by its slot, its name or its digest.
func Detach(ctx context.Context, o Options, name string) (stores.Store, error) {
	m, root, err := o.complete().managerAndRoot(ctx)
	if err != nil {
		return stores.Store{}, err
	}
	return m.Detach(ctx, name, root)
}

// DetachUnused removes all stores to which nothing refers any more, except those that Rollback
// needs. kept has the reason for each store that stays.
func DetachUnused(ctx context.Context, o Options) (detached []stores.Store, kept map[string]error, err error) {
	m, root, err := o.complete().managerAndRoot(ctx)
	if err != nil {
		return nil, nil, err
	}
	return m.DetachUnused(ctx, root)
}

// managerAndRoot also returns the graph root of CRI-O's main store, whose layers may need other
// stores.
func (o Options) managerAndRoot(ctx context.Context) (m stores.Manager, root string, err error) {
	if m, err = o.manager(); err != nil {
		return m, "", err
	}
	client, err := cri.Dial(o.Socket)
	if err != nil {
		return m, "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	if _, _, err := client.Version(ctx); err != nil {
		return m, "", err
	}
	root, err = client.GraphRoot(ctx)
	return m, root, err
}
