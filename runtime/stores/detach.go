package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrInUse means that something on the node needs a store.
var ErrInUse = fault.New(fault.Input, "the store is in use",
	"stop using it first; `pinbox-node compact` makes one store of several")

// Detach removes a store, given its slot, its name, or at least 4 digits of its digest. The
// kernel would unmount a store in use, and its images and containers would fail later. So a
// store in use is not removed: the error is ErrInUse and names what uses it. graphRoots are
// those of CRI-O's main store: of its images, and of its containers if that is another.
func (m Manager) Detach(ctx context.Context, name string, graphRoots ...string) (Store, error) {
	s, unlock, err := m.beginOrLook(ctx)
	if err != nil {
		return Store{}, err
	}
	defer unlock()
	o, err := s.state.find(name)
	if err != nil {
		return Store{}, err
	}
	return o, s.detach(ctx, o, graphRoots)
}

// DetachUnused removes all stores that are not in use, except those of releases before the
// current one, which a rollback needs. It also returns why it kept the others, by their titles.
func (m Manager) DetachUnused(
	ctx context.Context, graphRoots ...string,
) (removed []Store, kept map[string]error, err error) {
	s, unlock, err := m.beginOrLook(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	kept = map[string]error{}
	for _, o := range slices.Backward(slices.Clone(s.state.Stores)) { // a later store may need an earlier one
		if s.state.neededForRollback(o) {
			kept[o.Title()] = fmt.Errorf("%w: a rollback needs it", ErrInUse)
			continue
		}
		switch err := s.detach(ctx, o, graphRoots); {
		case errors.Is(err, ErrInUse):
			kept[o.Title()] = err
		case err != nil:
			return removed, kept, err
		default:
			removed = append(removed, o)
		}
	}
	return removed, kept, nil
}

// beginOrLook is begin. In a dry run it takes no lock, and takes the node as it is.
func (m Manager) beginOrLook(ctx context.Context) (s *session, unlock func(), err error) {
	if !m.DryRun {
		return m.begin(ctx)
	}
	state, err := readState(m)
	return &session{tools: m.tools(), state: state, dry: true}, func() {}, err
}

// neededForRollback reports whether a store has a release before the current one.
func (s State) neededForRollback(o Store) bool {
	current := slices.IndexFunc(s.Releases, func(r Release) bool { return r.ID == s.Current })
	return slices.ContainsFunc(s.Releases[:max(0, current)], func(r Release) bool { return r.Store == o.ID })
}

func (s *session) detach(ctx context.Context, o Store, graphRoots []string) error {
	if err := s.usage.check(s.state, o, graphRoots); err != nil {
		return err
	}
	if s.dry { // the stores that are looked at next find it gone
		s.usage.slots.all = slices.DeleteFunc(slices.Clone(s.usage.slots.all), func(slot string) bool {
			return slot == s.slots.path(o)
		})
		s.state.drop(o.ID)
		return nil
	}
	s.state.store(o.ID).Detaching = graphRoots
	problem, err := s.confirm(ctx, o.ID)
	attached := s.state.store(o.ID)
	if err != nil || attached == nil {
		return err
	}
	// The unmount failed, or something has begun to use the store.
	if err := errors.Join(problem, s.usage.check(s.state, *attached, graphRoots)); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w: something used it while it was being unmounted", o.Title(), ErrInUse)
}

// finishDetaches completes the detaches that were begun.
func (s *session) finishDetaches(ctx context.Context, found problems) {
	for _, o := range slices.Clone(s.state.Stores) {
		var err error
		switch {
		case o.Removing:
			err = s.remove(ctx, o)
		case len(o.Detaching) > 0:
			err = s.finishDetach(ctx, o)
		}
		if err != nil {
			found[o.ID] = err
		}
	}
}

// finishDetach unmounts and removes a store that is being detached. It checks the use of the
// store before and after the unmount, since CRI-O may begin to use it at any time.
func (s *session) finishDetach(ctx context.Context, o Store) error {
	inUse := s.usage.check(s.state, o, o.Detaching)
	if inUse == nil {
		if err := s.mounts.unmount(ctx, o); err != nil {
			return err
		}
		inUse = s.usage.check(s.state, o, o.Detaching)
	}
	if inUse != nil { // or its use could not be checked: reconcile mounts it again
		s.state.store(o.ID).Detaching = nil
		return s.save()
	}
	s.state.store(o.ID).Removing = true
	if err := s.save(); err != nil {
		return err
	}
	return s.remove(ctx, o)
}

// remove unmounts a store and removes its file.
func (s *session) remove(ctx context.Context, o Store) error {
	if err := s.mounts.unmount(ctx, o); err != nil {
		return err
	}
	if err := os.Remove(s.dir.file(o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.state.drop(o.ID)
	return s.save()
}
