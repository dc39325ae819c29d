package node

import (
	"context"
	"errors"
	"slices"

	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/stores"
)

// Detach removes a store to which nothing refers any more, by its slot, its name or its digest. With Settings.DryRun it
// only decides.
func (n *Node) Detach(ctx context.Context, name string) (stores.Store, error) {
	m, roots, err := n.managerAndRoots(ctx)
	if err != nil {
		return stores.Store{}, err
	}
	m.DryRun = n.s.DryRun
	detached, err := m.Detach(ctx, name, roots...)
	if m.DryRun {
		return detached, err
	}
	return detached, errors.Join(err, n.linkArtifacts())
}

// DetachUnused removes all stores to which nothing refers any more, except those that Rollback
// needs. kept has the reason for each store that stays.
func (n *Node) DetachUnused(ctx context.Context) (detached []stores.Store, kept map[string]error, err error) {
	m, roots, err := n.managerAndRoots(ctx)
	if err != nil {
		return nil, nil, err
	}
	m.DryRun = n.s.DryRun
	detached, kept, err = m.DetachUnused(ctx, roots...)
	if m.DryRun {
		return detached, kept, err
	}
	return detached, kept, errors.Join(err, n.linkArtifacts())
}

// ToDetach returns the names of the stores that DetachAll removes, unless something uses one.
func (n *Node) ToDetach() (names []string, err error) {
	m, err := n.manager()
	if err != nil {
		return nil, err
	}
	state, err := stores.ReadState(m.Dir)
	for _, s := range slices.Backward(state.Stores) {
		names = append(names, s.Title())
	}
	return names, err
}

// DetachAll removes all stores and the state: see [stores.Manager.DetachAll]. Without a store, CRI-O need not run.
func (n *Node) DetachAll(ctx context.Context) error {
	m, err := n.manager()
	if err != nil {
		return err
	}
	if state, err := stores.ReadState(m.Dir); err == nil && len(state.Stores) == 0 {
		return m.DetachAll(ctx)
	}
	m, roots, err := n.managerAndRoots(ctx)
	if err != nil {
		return err
	}
	return m.DetachAll(ctx, roots...)
}

// managerAndRoots also returns the graph roots of CRI-O's main store, whose layers may need other
// stores.
func (n *Node) managerAndRoots(ctx context.Context) (m stores.Manager, roots []string, err error) {
	if m, err = n.manager(); err != nil {
		return m, nil, err
	}
	client, err := cri.Dial(n.conf.Socket)
	if err != nil {
		return m, nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, n.s.Wait)
	defer cancel()
	if _, _, err := client.Version(ctx); err != nil {
		return m, nil, err
	}
	roots, err = client.GraphRoots(ctx)
	return m, roots, err
}
