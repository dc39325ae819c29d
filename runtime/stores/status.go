package stores

import (
	"slices"
	"time"
)

// Status is how a store is.
type Status struct {
	Store
	// Current says that its sets count; Previous, that `rollback` makes them count.
	Current, Previous bool
	// Problem is why it is not mounted; nil if it is.
	Problem error
}

// grace is how long a store may be unmounted while another pinbox-node works, before Look
// reports that: a mount takes this long on a slow machine. A copy takes longer, and then the
// stores that are unmounted are reported.
const grace = 5 * time.Second

// Status tells how the stores are, and changes nothing.
func (m Manager) Status() ([]Status, error) {
	dir := folder(m.Dir)
	for deadline := time.Now().Add(grace); ; time.Sleep(50 * time.Millisecond) {
		busy := dir.held(stateLock)
		all, err := m.snapshot()
		unmounted := slices.ContainsFunc(all, func(s Status) bool { return s.Problem != nil })
		busy = dir.held(stateLock) || busy
		if err != nil || !unmounted || !busy || time.Now().After(deadline) {
			return all, err
		}
	}
}

// snapshot tells how the stores are at this moment.
func (m Manager) snapshot() ([]Status, error) {
	s, err := ReadState(m.Dir)
	if err != nil {
		return nil, err
	}
	mounts, found := m.parts().mounts, problems{}
	for _, o := range s.Stores {
		if found[o.ID], err = mounts.diagnose(o); err != nil {
			return nil, err
		}
	}
	return s.statuses(found), nil
}

func (s *State) statuses(found problems) []Status {
	var all []Status
	current, previous := s.release(s.Current), s.previous()
	for _, o := range s.Stores {
		all = append(all, Status{
			Store: o, Problem: found[o.ID],
			Current: current != nil && current.Store == o.ID, Previous: previous != nil && previous.Store == o.ID,
		})
	}
	return all
}
