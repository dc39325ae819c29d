package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNoPrevious means that a rollback is not possible.
var ErrNoPrevious = fault.New(fault.Input, "no release to return to",
	"spec.node.keepPrevious sets how many previous releases stay; an earlier store can be attached again")

// ErrOtherSets means that the folder of sets was rolled back and the state was not: ostree keeps /etc with each
// version of the system, and /var once.
var ErrOtherSets = fault.New(fault.Other, "the folder of sets has those of another release",
	"`pinbox-node rollback` makes the release before current, too; `pinbox-node attach` of the current one writes its "+
		"sets again")

// Rollback makes a release current that the node keeps: to, by its number, its name, its digest or the slot of its
// store, 0 for the appliance's own; or the one that was current before if to is "". Then the next rollback goes
// forward again, as with rpm-ostree and bootc.
func (m Manager) Rollback(ctx context.Context, to string) (Release, error) {
	s, unlock, err := m.open(ctx)
	if err != nil {
		return Release{}, err
	}
	defer unlock()
	interrupted := s.state.RollingBack
	if _, err := s.reconcile(ctx); err != nil {
		return Release{}, err
	}
	if interrupted && !s.state.RollingBack { // it is complete now
		return *s.state.release(s.state.Current), nil
	}
	r, err := s.state.rollbackTo(to)
	if err != nil {
		return r, err
	}
	return r, s.returnTo(ctx, r)
}

// PlanRollback returns the release that Rollback would make current, with its sets, or the error of Rollback. It
// changes nothing, and takes no lock: what another process changes meanwhile is not seen.
func (m Manager) PlanRollback(ctx context.Context, to string) (Release, error) {
	state, err := readState(m)
	if err != nil {
		return Release{}, err
	}
	if state.RollingBack { // the next command completes it
		return *state.release(state.Current), nil
	}
	s := &session{tools: m.tools(), state: state}
	r, err := s.state.rollbackTo(to)
	if err == nil {
		err = s.checkReturn(ctx, r)
	}
	if attached := s.state.store(r.Store); err == nil && r.Sets == nil && attached != nil {
		var c content
		c, err = readContent(os.DirFS(s.slots.path(*attached)))
		r.Sets = c.Sets
	}
	return r, err
}

// checkReturn refuses a release that cannot become current: its store is not mounted, or it has no sets.
func (s *session) checkReturn(ctx context.Context, r Release) error {
	mounted, err := mount.ReadTable()
	if err != nil {
		return err
	}
	if r.ID == "" && len(r.Sets) == 0 && s.slots.own == "" && mounted[s.slots.all[0]] == 0 {
		return fmt.Errorf("%w: %s is the first one, and the node has no store of its own", ErrNoPrevious,
			s.state.release(s.state.Current).Title())
	}
	return s.checkMounted(ctx, r)
}

// returnTo makes a release current that the node has. All others stay, also newer ones.
func (s *session) returnTo(ctx context.Context, r Release) error {
	if err := s.checkReturn(ctx, r); err != nil {
		return err
	}
	r, err := s.withSets(ctx, r, AttachOptions{dry: s.dry})
	if err != nil {
		return err
	}
	if s.dry {
		s.next = &r
		return nil
	}
	if err := s.releases.saveSets(&s.state, r.Sets); err != nil {
		return err
	}
	s.state.makeCurrent(r, len(s.state.Releases))
	s.state.RollingBack = true
	return errors.Join(s.confirm(ctx, r.Store))
}

// rollbackTo returns the release that a rollback makes current.
func (s *State) rollbackTo(to string) (Release, error) {
	if to == "" {
		if previous := s.previous(); previous != nil {
			return *previous, nil
		}
		return Release{}, ErrNoPrevious
	}
	r, err := s.named(to, s.Releases)
	if err != nil {
		return r, fault.Wrap(ErrNoPrevious, err)
	}
	if r.ID == s.Current {
		return r, fmt.Errorf("%q: %w: it is current", to, ErrNoPrevious)
	}
	return r, nil
}

// everyRelease are the releases that the node keeps, and those of other stores: these came without their sets, or are
// not kept, and have no sets here.
func (s *State) everyRelease() []Release {
	all := slices.Clone(s.Releases)
	for _, o := range s.Stores {
		if !s.hasRelease(o.ID) {
			all = append(all, Release{ID: o.ID, Thin: o.Thin, Store: o.ID, ReleaseID: o.ReleaseID})
		}
	}
	return all
}

// named returns the release, of all, with a number, a name, a digest or the slot of its store; 0 is the appliance's
// own.
func (s *State) named(name string, all []Release) (Release, error) {
	hex := strings.TrimPrefix(name, "sha256:")
	found := releasesWhere(all, func(r Release) bool {
		return name == r.Name || name == r.Title() || r.Number > 0 && name == strconv.FormatInt(r.Number, 10) ||
			r.ID != "" && len(hex) >= 4 && strings.HasPrefix(r.ID.Encoded(), hex)
	})
	if len(found) == 0 {
		o, _ := s.find(name) // an error is that of the release
		found = releasesWhere(all, func(r Release) bool {
			if r.ID == "" {
				return name == ownSlot
			}
			return r.Store == o.ID && (r.Number == 0 || name != o.Slot) // 2 is no slot where releases have numbers
		})
	}
	if len(found) > 1 { // releases of one appliance have its name
		found = slices.DeleteFunc(found, func(r Release) bool { return r.ID == s.Current })
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var titles []string
	for _, r := range all {
		titles = append(titles, cmp.Or(r.Title(), Short(r.ID)))
	}
	return Release{}, fmt.Errorf("%q: %w: it names %d of what the node has: %s", name, ErrNotAttached, len(found),
		cmp.Or(strings.Join(titles, ", "), "no store"))
}

// releasesWhere returns the releases that are wanted.
func releasesWhere(all []Release, wanted func(Release) bool) (found []Release) {
	for _, r := range all {
		if wanted(r) {
			found = append(found, r)
		}
	}
	return found
}

// makeCurrent makes a release current whose store is attached.
func (s *session) makeCurrent(ctx context.Context, r Release) error {
	if err := s.checkMounted(ctx, r); err != nil {
		return err
	}
	if s.dry {
		s.next = &r
		return nil
	}
	if err := s.releases.makeCurrent(&s.state, r); err != nil {
		return err
	}
	return errors.Join(s.confirm(ctx, r.Store))
}

// checkMounted refuses a release whose store is not mounted: its sets would be applied
// unexpectedly, when the store can be mounted again.
func (s *session) checkMounted(ctx context.Context, r Release) error {
	o := s.state.store(r.Store)
	if o == nil { // the appliance's own store
		return nil
	}
	problem, err := s.mounts.diagnose(ctx, *o)
	if problem != nil {
		err = fmt.Errorf("the store %s: %w", o.Title(), problem)
	}
	return err
}

// applySets writes the sets of the current release into the folder of sets, if its store is
// mounted.
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
	s.state.SetsPending, s.state.RollingBack, s.state.SetsToRemove = false, false, nil
	return s.save()
}

// releases saves the sets of releases in the state, and writes those of the current one.
type releases struct {
	// sets is the folder of sets.
	sets  string
	slots slots
	// own is the release of the appliance's own store.
	own pinset.ReleaseID
	// keep is how many releases before the current one are kept.
	keep int
}

// makeCurrent makes a release current in the state.
func (r releases) makeCurrent(s *State, next Release) error {
	if err := r.saveSets(s, next.Sets); err != nil {
		return err
	}
	s.makeCurrent(next, r.keep)
	return nil
}

// saveSets saves the sets of the current release, as they are in the folder now, since a user may
// have changed them. It also saves files of users that the next release overwrites.
func (r releases) saveSets(s *State, next map[string]string) error {
	if len(s.Releases) == 0 { // the first attach: the release of the appliance's own store
		c, _ := readSets(os.DirFS(r.slots.all[0])) // a node may have no such store
		s.Releases = []Release{{ReleaseID: r.own, Sets: c}}
	}
	current := s.release(s.Current)
	if current == nil {
		return nil
	}
	names := slices.Collect(maps.Keys(current.Sets))
	s.SetsToRemove = append(s.SetsToRemove, names...)
	stale := r.stale(*s, *current)
	if stale {
		others, _ := r.others(*s)
		s.SetsToRemove = append(s.SetsToRemove, others...)
	}
	slices.Sort(s.SetsToRemove)
	s.SetsToRemove = slices.Compact(s.SetsToRemove)
	if s.SetsPending || stale { // these are not its sets
		return nil
	}
	sets := map[string]string{}
	for _, name := range slices.AppendSeq(names, maps.Keys(next)) {
		text, err := input.Read(filepath.Join(r.sets, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed by a user
		case err != nil:
			return err
		default:
			sets[name] = string(text)
		}
	}
	current.Sets = sets // a new map, since clones of the state share the old one
	return nil
}

// checkSets returns an ErrOtherSets if the folder has sets of another release instead of those of the current one.
func (r releases) checkSets(s State) error {
	current := s.release(s.Current)
	if current == nil || s.SetsPending || r.has(current.Sets) {
		return nil
	}
	if _, of := r.others(s); of != "" {
		return fmt.Errorf("%w: %s has those of %s, and %s is current", ErrOtherSets, r.sets, of, current.Title())
	}
	return nil
}

// stale reports whether the folder has the sets of another release than the current one, or nothing any more.
func (r releases) stale(s State, current Release) bool {
	entries, err := os.ReadDir(r.sets)
	visible := func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") }
	empty := fault.Ignore(err, fs.ErrNotExist) == nil && !slices.ContainsFunc(entries, visible)
	return empty && len(current.Sets) > 0 || r.checkSets(s) != nil
}

// others returns the files in the folder that are, to the byte, sets of another release than the current one, and the
// title of one of these releases; "" if there is none.
func (r releases) others(s State) (names []string, of string) {
	entries, _ := os.ReadDir(r.sets) // whoever reads the sets reports the error
	for _, e := range entries {
		content, err := input.Read(filepath.Join(r.sets, e.Name()))
		text := string(content)
		if current := s.release(s.Current); err != nil || current != nil && current.Sets[e.Name()] == text {
			continue
		}
		i := slices.IndexFunc(s.Releases, func(other Release) bool { return other.Sets[e.Name()] == text && text != "" })
		switch {
		case i >= 0:
			names, of = append(names, e.Name()), s.Releases[i].Title()
		case slices.Contains(s.FormerSets, digest.FromString(text)):
			names, of = append(names, e.Name()), cmp.Or(of, "one that the node does not keep")
		}
	}
	return names, of
}

// has reports whether the folder has these sets.
func (r releases) has(sets map[string]string) bool {
	for name, text := range sets {
		if found, err := input.Read(filepath.Join(r.sets, name)); err != nil || string(found) != text {
			return false
		}
	}
	return true
}

// write writes sets into the folder and then removes the files in old that are not among them.
// Other files of users stay.
func (r releases) write(sets map[string]string, old []string) error {
	if err := os.MkdirAll(r.sets, 0o755); err != nil {
		return err
	}
	folder, err := os.OpenRoot(r.sets)
	if err != nil {
		return err
	}
	defer folder.Close()
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		if _, err := atomicfile.WriteIn(folder, name, []byte(sets[name]), 0o644); err != nil {
			return err
		}
	}
	for _, name := range old {
		if _, kept := sets[name]; kept {
			continue
		}
		if err := os.Remove(filepath.Join(r.sets, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
