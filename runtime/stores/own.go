package stores

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/audit"
)

// checkOwn checks the appliance's own store, which a unit of its own has mounted, and unmounts it if
// CRI-O could not list its images: with a record that cannot be read, CRI-O does not start at all.
func (m Manager) checkOwn(ctx context.Context) error {
	slot := m.Slots[0]
	mounted, err := mount.ReadTable()
	if err != nil || mounted[slot] == 0 {
		return err
	}
	if _, err = audit.Records(os.DirFS(slot)); err == nil {
		return nil
	}
	err = fmt.Errorf("the appliance's own store was unmounted: %w", err)
	return errors.Join(err, mount.UnmountAll(ctx, m.Mounter, slot))
}

// noteOwn keeps in the state why the appliance's own store is not mounted.
func noteOwn(s *session, problem error) error {
	before := s.state.OwnProblem
	if problem != nil {
		s.state.OwnProblem = problem.Error()
	} else if mounted, err := mount.ReadTable(); err == nil && mounted[s.slots.all[0]] > 0 {
		s.state.OwnProblem = ""
	}
	if s.state.OwnProblem == before {
		return nil
	}
	return s.save()
}

// errOwnNotMounted says that the appliance's own store is not mounted.
var errOwnNotMounted = errors.New("the appliance's own store is not mounted: it is missing or damaged; " +
	"`journalctl -b -u pinbox-store.service` says more")

// ownProblem is why the appliance's own store is not mounted while its release is current; nil if it is. Another
// release needs it only for deltas, which have a problem of their own without it.
func (s *State) ownProblem(slots slots) error {
	if s.OwnProblem != "" {
		return errors.New(s.OwnProblem)
	}
	if slots.own == "" || s.Current != "" {
		return nil
	}
	mounted, err := mount.ReadTable()
	if err == nil && mounted[slots.all[0]] == 0 {
		err = errOwnNotMounted
	}
	return err
}
