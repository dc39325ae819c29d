package stores

import (
	"context"
	"fmt"
	"slices"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrNotReplaced means that a compacted store was discarded.
var ErrNotReplaced = fault.New(fault.Other, "the compacted store cannot replace the others",
	"the stores are unchanged; compact them again")

// replaceByCompacted replaces stores by the compacted one, or discards the compacted one if a
// store or a container that is new since then needs a layer that it does not have.
func (s *session) replaceByCompacted(ctx context.Context) error {
	c := *s.state.Compaction
	mounted, err := mount.ReadTable()
	if err != nil {
		return err
	}
	problem := s.checkReplaceable(c, mounted)
	if problem == nil { // it gets its slot only after the files of the others were removed
		problem = s.mounts.tryMount(ctx, c.Store)
	}
	if err := ctx.Err(); err != nil { // interrupted: the compaction stays pending
		return err
	}
	after := s.state.clone()
	after.Compaction = nil
	if problem == nil {
		after.replace(c, s.state.freeSlot(s.slots.attachable(), mounted))
	}
	if err := after.write(string(s.dir)); err != nil {
		return err
	}
	s.state = after
	if problem != nil {
		return fault.Wrap(ErrNotReplaced, problem)
	}
	return nil
}

// checkReplaceable returns why a compacted store cannot replace the others.
func (s *session) checkReplaceable(c Compaction, mounted mount.Table) error {
	for _, id := range c.Replaces {
		o := s.state.store(id)
		if o == nil {
			return fmt.Errorf("%w: %s was detached meanwhile", ErrNotAttached, Short(id))
		}
		mounted[s.slots.path(*o)] = 0
	}
	if _, err := s.mounts.prepare(c.Store, mounted); err != nil {
		return err
	}
	return s.usage.checkReplaceable(s.state, c, mounted)
}

// replace replaces stores by a compacted one, which gets a free slot or, if no slot is free, the
// slot of the first.
func (s *State) replace(c Compaction, freeSlot string) {
	if s.store(c.Store.ID) == nil {
		if c.Store.Slot = freeSlot; freeSlot == "" {
			c.Store.Slot = s.store(c.Replaces[0]).Slot
		}
		s.Stores = append(s.Stores, c.Store)
	}
	for i := range s.Stores {
		if slices.Contains(c.Replaces, s.Stores[i].ID) {
			s.Stores[i].Removing = true
		}
	}
	for i := range s.Releases {
		if slices.Contains(c.Replaces, s.Releases[i].Store) {
			s.Releases[i].Store = c.Store.ID
		}
	}
}
