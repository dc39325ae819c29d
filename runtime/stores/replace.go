package stores

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrNotReplaced says that a compacted store is given up.
var ErrNotReplaced = errors.New("the compacted store cannot take the place of the others")

// replaceByCompacted puts the compacted store in the place of the others. A store or a
// container that has come since may need what it leaves out: then they stay.
func (s *session) replaceByCompacted(ctx context.Context) error {
	c := *s.state.Compaction
	mounted, err := readMountTable()
	if err != nil {
		return err
	}
	problem := s.checkReplaceable(c, mounted)
	if problem == nil { // the files of the others are removed before it is mounted at a slot
		problem = s.mounts.try(ctx, c.Store)
	}
	if err := ctx.Err(); err != nil { // it may yet replace them
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
		return fmt.Errorf("%w: %w", ErrNotReplaced, problem)
	}
	return nil
}

// checkReplaceable says why a compacted store cannot replace those that it was made of.
func (s *session) checkReplaceable(c Compaction, mounted mountTable) error {
	for _, id := range c.Replaces {
		o := s.state.store(id)
		if o == nil {
			return fmt.Errorf("%w: %s was detached since", ErrNotAttached, Short(id))
		}
		mounted[s.slots.path(*o)] = 0
	}
	if _, err := s.mounts.prepare(c.Store, mounted); err != nil {
		return err
	}
	return s.usage.checkReplaceable(s.state, c, mounted)
}

// replace has a compacted store replace others, at a free slot or at that of the first.
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
