package stores

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/verity"
)

// Status of an attached store.
type Status struct {
	Store
	// Current and Previous report whether it has the current release or the previous one.
	Current, Previous bool
	// Refused means that the store is not attached: see [State].
	Refused bool
	// Problem is why the store is not mounted; nil if it is.
	Problem error
	// Verification is that of a mounted store.
	Verification mount.Verification
}

// Standings of the releases that a node keeps. The next one is what a rollback has left, to which another returns.
const (
	StandingCurrent  = "current"
	StandingPrevious = "previous"
	StandingNext     = "next"
	StandingKept     = "kept"
)

// Standings are what the releases that the node keeps are, the current one first, in the order in which they were it.
func (s *State) Standings() (releases []Release, standings []string) {
	current, previous := s.release(s.Current), s.previous()
	for _, r := range slices.Backward(s.Releases) {
		newer := current != nil && r.Attached.After(current.Attached)
		if current != nil && r.Number > 0 && current.Number > 0 {
			newer = r.Number > current.Number
		}
		standing := StandingKept
		switch {
		case r.ID == s.Current:
			standing = StandingCurrent
		case previous != nil && r.ID == previous.ID && newer:
			standing = StandingNext
		case previous != nil && r.ID == previous.ID:
			standing = StandingPrevious
		}
		releases, standings = append(releases, r), append(standings, standing)
	}
	return releases, standings
}

// ownSlot is the base name of the slot for the appliance's own store.
const ownSlot = "0"

// grace is how long Status waits for a store that is not mounted while another pinbox-node works:
// on a slow machine, a mount takes this long. Copying a store takes longer, and is not awaited.
const grace = 5 * time.Second

// Status reads the status of all attached stores. It changes nothing and takes no lock.
func (m Manager) Status(ctx context.Context) ([]Status, error) {
	dir := folder(m.Dir)
	for deadline := time.Now().Add(grace); ; time.Sleep(50 * time.Millisecond) {
		busy := dir.held(stateLock)
		all, err := m.snapshot(ctx)
		unmounted := slices.ContainsFunc(all, func(s Status) bool { return s.Problem != nil && !s.Refused })
		busy = dir.held(stateLock) || busy
		if err != nil || !unmounted || !busy || time.Now().After(deadline) {
			return all, err
		}
	}
}

// snapshot reads the status of the stores once.
func (m Manager) snapshot(ctx context.Context) ([]Status, error) {
	s, err := readState(m)
	if err != nil {
		return nil, err
	}
	mounts, found := m.tools().mounts, problems{}
	for _, o := range s.Stores {
		if found[o.ID], err = mounts.diagnose(ctx, o); err != nil {
			return nil, err
		}
	}
	all, err := s.statuses(ctx, mounts, found)
	return all, errors.Join(s.restored, err, m.tools().releases.checkSets(s))
}

func (s *State) statuses(ctx context.Context, m mounts, found problems) ([]Status, error) {
	var all []Status
	current, previous := s.release(s.Current), s.previous()
	if problem := s.ownProblem(m.slots); problem != nil {
		all = append(all, Status{Store: Store{Slot: ownSlot}, Problem: problem})
	}
	for _, o := range s.Stores {
		status := Status{
			Store: o, Problem: found[o.ID],
			Current: current != nil && current.Store == o.ID, Previous: previous != nil && previous.Store == o.ID,
		}
		if status.Problem == nil {
			var err error
			if status.Verification, err = m.verifier.Verification(ctx, m.slots.path(o), o.Verity); err != nil {
				return nil, err
			}
		}
		all = append(all, status)
	}
	if r := s.Refused; r != nil {
		refused := Store{ID: r.ID, ReleaseID: r.ReleaseID}
		all = append(all, Status{Store: refused, Refused: true, Problem: errors.New(r.Reason)})
	}
	return all, nil
}

// Own returns how the appliance's own store is verified; nil if it is not mounted.
func (m Manager) Own(ctx context.Context) (*mount.Verification, error) {
	p := m.tools()
	mounted, err := mount.ReadTable()
	if err != nil || len(p.slots.all) == 0 || mounted[p.slots.all[0]] == 0 {
		return nil, err
	}
	// Its units have its root. Without them the tree is unknown, which is not the reason.
	found, err := p.mounts.verifier.Verification(ctx, p.slots.all[0], verity.Tree{Root: "unknown"})
	return &found, err
}
