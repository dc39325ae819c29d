package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// ErrInUse says that something on the node needs a store.
var ErrInUse = errors.New("the store is in use")

// Detach removes a store: by its slot, its name, or the beginning of its digest. The kernel
// would unmount one that is in use, and its images and containers would fail later. So a store
// that something refers to is not removed, and the error names what does. root is that of
// CRI-O's own store.
func (m Manager) Detach(ctx context.Context, name, root string) (Store, error) {
	s, release, err := m.begin(ctx)
	if err != nil {
		return Store{}, err
	}
	defer release()
	o, err := s.state.find(name)
	if err != nil {
		return Store{}, err
	}
	return o, s.detach(ctx, o, root)
}

// DetachUnused removes all stores to which nothing refers, but for those of releases that
// `rollback` may want. It also returns why it keeps the others.
func (m Manager) DetachUnused(ctx context.Context, root string) (gone []Store, kept map[string]error, err error) {
	s, release, err := m.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	kept = map[string]error{}
	for _, o := range slices.Backward(slices.Clone(s.state.Stores)) { // a later store may need an earlier one
		if s.state.wanted(o) {
			kept[o.title()] = fmt.Errorf("%w: rollback may want it", ErrInUse)
			continue
		}
		switch err := s.detach(ctx, o, root); {
		case errors.Is(err, ErrInUse):
			kept[o.title()] = err
		case err != nil:
			return gone, kept, err
		default:
			gone = append(gone, o)
		}
	}
	return gone, kept, nil
}

// wanted says that a rollback would want a store.
func (s State) wanted(o Store) bool {
	current := slices.IndexFunc(s.Releases, func(r Release) bool { return r.ID == s.Current })
	return slices.ContainsFunc(s.Releases[:max(0, current)], func(r Release) bool { return r.Store == o.ID })
}

func (s *session) detach(ctx context.Context, o Store, root string) error {
	if err := s.usage.check(s.state, o, root); err != nil {
		return err
	}
	s.state.store(o.ID).Detaching = root
	problem, err := s.confirm(ctx, o.ID)
	there := s.state.store(o.ID)
	if err != nil || there == nil {
		return err
	}
	// It could not be unmounted, or something has begun to use it.
	if err := errors.Join(problem, s.usage.check(s.state, *there, root)); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w: something used it while it was being unmounted", o.title(), ErrInUse)
}

// finishDetaches completes what detaches have begun.
func (s *session) finishDetaches(ctx context.Context, found problems) {
	for _, o := range slices.Clone(s.state.Stores) {
		var err error
		switch {
		case o.Removing:
			err = s.remove(ctx, o)
		case o.Detaching != "":
			err = s.finishDetach(ctx, o)
		}
		if err != nil {
			found[o.ID] = err
		}
	}
}

// finishDetach goes on with a store that is being detached. It is checked again before and
// after the unmount, since CRI-O does not wait: it may begin to use the store at any time.
func (s *session) finishDetach(ctx context.Context, o Store) error {
	inUse := s.usage.check(s.state, o, o.Detaching)
	if inUse == nil {
		if err := s.mounts.unmount(ctx, o); err != nil {
			return err
		}
		inUse = s.usage.check(s.state, o, o.Detaching)
	}
	if inUse != nil { // or nobody can tell: it is mounted again
		s.state.store(o.ID).Detaching = ""
		return s.save()
	}
	s.state.store(o.ID).Removing = true
	if err := s.save(); err != nil {
		return err
	}
	return s.remove(ctx, o)
}

// remove removes what is left of a store to which nothing refers.
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
