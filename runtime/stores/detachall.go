package stores

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// DetachAll removes all stores, the sets that came with them, and the state. Sets and releases do not count as
// use. If a container, or an image or a layer of CRI-O's main store, needs one of the stores, the error is
// ErrInUse, and nothing has changed.
func (m Manager) DetachAll(ctx context.Context, graphRoots ...string) error {
	m.Wanted = func() ([]pinset.Image, error) { return nil, nil }
	s, unlock, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.usage.checkAll(s.state.Stores, graphRoots); err != nil {
		return err
	}
	if err := s.releases.forget(&s.state); err != nil {
		return err
	}
	if err := s.save(); err != nil {
		return err
	}
	for _, o := range slices.Backward(slices.Clone(s.state.Stores)) { // a later store may need an earlier one
		if err := s.detach(ctx, o, graphRoots); err != nil {
			return err
		}
	}
	return s.dir.remove()
}

// forget removes the unchanged sets of the current release from the folder of sets, and all releases from the state.
func (r releases) forget(s *State) error {
	if current := s.release(s.Current); current != nil {
		var names []string
		for name, text := range current.Sets {
			now, err := input.Read(filepath.Join(r.sets, name))
			if err == nil && string(now) == text { // nobody has changed it
				names = append(names, name)
			}
		}
		if err := r.write(nil, names); err != nil {
			return err
		}
	}
	s.Current, s.Releases, s.Compaction = "", nil, nil
	s.SetsPending, s.RollingBack, s.SetsToRemove = false, false, nil
	return nil
}

// checkAll returns ErrInUse with the names of what needs a layer or an image that only these stores have.
func (u usage) checkAll(all []Store, graphRoots []string) error {
	if len(all) == 0 {
		return nil
	}
	main, err := u.readMain(graphRoots)
	if err != nil {
		return err
	}
	r := newReferences()
	r.main, r.own = main, &records{}
	var titles []string
	for _, o := range all {
		titles = append(titles, o.Title())
		own, err := u.sources.records(o)
		if err != nil || r.own == nil { // its file is missing: any layer that is nowhere else may be in it
			r.own = nil
			continue
		}
		r.own.layers, r.own.images = append(r.own.layers, own.layers...), append(r.own.images, own.images...)
	}
	for _, root := range u.slots.others {
		other, err := readRecords(os.DirFS(root))
		if err != nil {
			return err
		}
		r.addOther(other)
	}
	r.addImages(main.images)
	return inUse(strings.Join(titles, ", "), r.users())
}

// remove removes the folder of a node that has no store.
func (f folder) remove() error {
	var errs []error
	for _, name := range []string{
		filepath.Base(stateFile(string(f))), filepath.Base(stateCopy(string(f))), stateLock, compactLock,
		filepath.Base(f.trial()), "",
	} {
		if err := os.Remove(filepath.Join(string(f), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
