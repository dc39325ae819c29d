package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// ErrNoPrevious says that there is nothing to go back to.
var ErrNoPrevious = errors.New("there is no release before the current one")

// Rollback makes the release before the current one current.
func (m Manager) Rollback(ctx context.Context) (Release, error) {
	s, release, err := m.begin(ctx)
	if err != nil {
		return Release{}, err
	}
	defer release()
	previous := s.state.previous()
	if previous == nil {
		return Release{}, ErrNoPrevious
	}
	r := *previous
	if err := s.checkMounted(r); err != nil {
		return r, err
	}
	if err := s.releases.leave(&s.state, r.Sets); err != nil {
		return r, err
	}
	s.state.Current, s.state.SetsPending = r.ID, true
	return r, errors.Join(s.confirm(ctx, r.Store))
}

// makeCurrent makes another release current.
func (s *session) makeCurrent(ctx context.Context, r Release) error {
	if err := s.checkMounted(r); err != nil {
		return err
	}
	if err := s.releases.take(&s.state, r); err != nil {
		return err
	}
	return errors.Join(s.confirm(ctx, r.Store))
}

// checkMounted refuses a release whose store is not mounted: its sets would be applied later,
// once the store is back.
func (s *session) checkMounted(r Release) error {
	o := s.state.store(r.Store)
	if o == nil { // the appliance's own
		return nil
	}
	problem, err := s.mounts.diagnose(*o)
	if problem != nil {
		err = fmt.Errorf("the store %s: %w", o.title(), problem)
	}
	return err
}

// applySets makes the folder of sets that of the current release, once its store is mounted.
func (s *session) applySets(found problems) error {
	if !s.state.SetsPending {
		return nil
	}
	current := s.state.release(s.state.Current)
	if current == nil || found[current.Store] != nil {
		return nil
	}
	if err := s.releases.write(current.Sets, s.state.SetsToRemove); err != nil {
		return err
	}
	s.state.SetsPending, s.state.SetsToRemove = false, nil
	return s.save()
}

// releases keeps the sets of releases, and writes those of the current one.
type releases struct {
	// sets is the folder of sets.
	sets  string
	slots slots
	// keep is how many releases before the current one stay.
	keep int
}

// take makes a release current in the state.
func (r releases) take(s *State, next Release) error {
	if err := r.leave(s, next.Sets); err != nil {
		return err
	}
	s.take(next, r.keep)
	return nil
}

// leave notes the sets of the current release as they are now, since somebody may have changed
// them after they came. It also notes files of that person that the next sets overwrite.
func (r releases) leave(s *State, next map[string]string) error {
	if len(s.Releases) == 0 { // the appliance's own sets came with no state
		c, _ := readSets(os.DirFS(r.slots.all[0])) // a node without a store of its own has none
		s.Releases = []Release{{Sets: c}}
	}
	left := s.release(s.Current)
	if left == nil {
		return nil
	}
	names := slices.Collect(maps.Keys(left.Sets))
	s.SetsToRemove = append(s.SetsToRemove, names...)
	slices.Sort(s.SetsToRemove)
	s.SetsToRemove = slices.Compact(s.SetsToRemove)
	if s.SetsPending { // the folder is not yet this release's
		return nil
	}
	sets := map[string]string{}
	for _, name := range slices.AppendSeq(names, maps.Keys(next)) {
		text, err := os.ReadFile(filepath.Join(r.sets, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // somebody has removed it
		case err != nil:
			return err
		default:
			sets[name] = string(text)
		}
	}
	left.Sets = sets // a new map: the clone of a state that is restored has the old one
	return nil
}

// write writes sets into the folder, and then removes those of the replaced names that are not
// among them. Files that came with no release stay.
func (r releases) write(sets map[string]string, replaced []string) error {
	if err := os.MkdirAll(r.sets, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		if _, err := atomicfile.WriteVia(r.part(), filepath.Join(r.sets, name), []byte(sets[name]), 0o644); err != nil {
			return err
		}
	}
	for _, name := range replaced {
		if _, kept := sets[name]; kept {
			continue
		}
		if err := os.Remove(filepath.Join(r.sets, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// part is a file in the folder of sets that is being written: hidden, so it is no set.
func (r releases) part() string { return filepath.Join(r.sets, ".pinbox"+partSuffix) }

// sweep removes what a process that was killed has left there.
func (r releases) sweep() error {
	if err := os.Remove(r.part()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
