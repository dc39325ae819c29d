package node

import (
	"context"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/runtime/volumes"
	"github.com/pinbox/pinbox/storage/pinset"
)

// volumesUnit copies image volumes: a unit that makes passes may not write to CRI-O's store.
const volumesUnit systemd.Unit = "pinbox-volumes.service"

// CopyVolumes writes the images of image volumes into CRI-O's own store, at low priority, and returns them.
func (n *Node) CopyVolumes(ctx context.Context) ([]pinset.Image, error) {
	r, end, err := n.Reconciler()
	if err != nil {
		return nil, err
	}
	defer end()
	r.Node.(*machine).direct = true
	defer lowerPriority()()
	return r.Copy(ctx)
}

// ownStore is CRI-O's own store.
type ownStore struct {
	node *Node
	// direct means that this process writes to it, and not the unit.
	direct bool
}

// Own implements runtime.Volumes.
func (ownStore) Own(graphRoot string) (names map[string]string, layers pinset.Layers, err error) {
	if names, err = stores.Names(graphRoot); err == nil {
		layers, err = stores.Layers(graphRoot)
	}
	return names, layers, err
}

// Copy implements runtime.Volumes.
func (s ownStore) Copy(ctx context.Context, graphRoot string, images []pinset.Image) error {
	if !s.direct && systemd.Running() && volumesUnit.Loaded(ctx) {
		return volumesUnit.Start(ctx)
	}
	if s.node.crioErr != nil {
		return s.node.crioErr
	}
	slots, _, others := s.node.slots()
	return volumes.Copy(ctx, graphRoot, append(slots, others...), images)
}
