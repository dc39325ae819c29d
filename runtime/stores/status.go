package stores

import (
	"slices"
	"time"
)

// Status of an attached store.
type Status struct {
	Store
	// Current and Previous report whether it has the current release or the previous one.
	Current, Previous bool
	// Problem is why the store is not mounted; nil if it is.
	Problem error
}

// grace is how long Status waits for a store that is not mounted while another pinbox-node works:
// on a slow machine, a mount takes this long. Copying a store takes longer, and is not awaited.
const grace = 5 * time.Second

// Status reads the status of all attached stores. It changes nothing and takes no lock.
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

// snapshot reads the status of the stores once.
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
