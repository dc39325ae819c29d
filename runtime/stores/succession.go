package stores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// checkSuccession returns why the release of the store id does not become current, or why the store is not attached at
// all. What was plugged in and needs an operator is in the status from then on.
func checkSuccession(s *session, id digest.Digest, next pinset.ReleaseID, o AttachOptions) error {
	if o.Force && !o.Auto {
		return nil
	}
	history := s.releases.history(s.state)
	err := checkAppliance(next, s.state.Current, history)
	if err == nil && !o.KeepSets {
		same := id
		if id == s.slots.own { // a copy of the appliance's own, which may be damaged
			same = ""
		}
		err = checkNewer(same, next, history)
	}
	if err == nil && o.Auto && next.Number == 0 {
		err = fault.With(fmt.Errorf("%w: it is %s", pinset.ErrNoNumber, next.Title()), fault.Input,
			"`pinbox-node attach` without --auto attaches it; metadata.release of the appliance file is the number")
	}
	if err != nil && o.Auto {
		s.state.Refused = &Refused{ID: id, ReleaseID: next, Reason: err.Error()}
		return errors.Join(err, s.save())
	}
	return err
}

// history returns the releases that the node keeps. Before the first attach it is the appliance's own.
func (r releases) history(s State) []Release {
	if len(s.Releases) == 0 {
		return []Release{{ReleaseID: r.own}}
	}
	return s.Releases
}

// checkAppliance returns ErrOtherAppliance unless a release is of the appliance of the current one.
func checkAppliance(next pinset.ReleaseID, current digest.Digest, history []Release) error {
	for _, r := range history {
		if r.ID == current {
			return next.IsOf(r.ReleaseID)
		}
	}
	return nil
}

// checkNewer returns ErrNotNewer unless the release of the store id is newer than all others that the node keeps:
// not only than the current one, so that after a rollback no medium brings in a release from between the two.
func checkNewer(id digest.Digest, next pinset.ReleaseID, history []Release) error {
	for _, r := range history {
		if r.ID == id {
			continue
		}
		if err := next.Follows(r.ReleaseID); err != nil {
			return err
		}
	}
	return nil
}

// isUnordered reports whether the release of the store id may be older than one that the node keeps, since neither
// has a number.
func isUnordered(s *session, id digest.Digest, next pinset.ReleaseID) bool {
	return slices.ContainsFunc(s.releases.history(s.state), func(r Release) bool {
		return r.ID != id && next.IsUnordered(r.ReleaseID)
	})
}

// findOwn reports whether a store is the appliance's own, by its digest. Then it is not copied.
func findOwn(ctx context.Context, s *session, src source, o AttachOptions) (a Attached, found bool, err error) {
	if src.id == "" || src.id != s.slots.own {
		return a, false, nil
	}
	root := s.slots.all[0]
	mounted, err := mount.ReadTable()
	if err != nil || mounted[root] == 0 {
		return a, false, err
	}
	c, err := readContent(os.DirFS(root))
	if err != nil { // it is damaged: the one at hand may replace it
		return a, false, nil
	}
	a = Attached{Found: true, Appliance: true, Store: Store{
		ID: src.id, ReleaseID: s.releases.own, Slot: filepath.Base(root), Images: len(c.Lock.Images),
	}}
	return a, true, s.makeApplianceCurrent(ctx, o)
}
