package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/aside"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

var (
	_ mount.Mounter = mount.Direct{}
	_ mount.Mounter = systemd.Mounter{}
)

// Stores returns the status of the attached stores. It changes nothing.
func (n *Node) Stores(ctx context.Context) ([]runtime.StoreStatus, error) {
	return n.reconcileStores(ctx, true)
}

// Contents returns what the mounted stores have, for those who make deltas for the node. The error names stores that
// cannot be read; the others are there.
func (n *Node) Contents() ([]pinset.StoreContent, error) {
	m, err := n.manager()
	if err != nil {
		return nil, err
	}
	return stores.Contents(m)
}

// manager returns the manager of the attached stores.
func (n *Node) manager() (stores.Manager, error) {
	config := n.conf
	m := stores.Manager{
		Dir: filepath.Join(n.stateDir(), layout.AttachedDir), Keys: n.conf.KeysDir, Sets: n.conf.SetsDir,
		Signed: config.Signed == layout.SignedRequired,
		Wanted: n.wanted, Mounter: mount.Direct{},
		KeepPrevious: config.KeepPrevious, SELinuxContext: config.SELinuxContext, Wait: n.s.Wait,
		Verity: config.Verity, Appliance: config.ReleaseID, OwnStore: config.Store,
		RunRoots: n.crio.RunRoots(),
		Programs: filepath.Join(n.stateDir(), filepath.Base(layout.ProgramsDir)), OwnProgram: config.Program,
	}
	m.ConfigError = n.crioErr
	m.Slots, m.Configured, m.OtherStores = n.slots()
	if systemd.Running() {
		m.Mounter = systemd.Mounter{}
	}
	return m, n.confErr
}

// slots returns the mount points of stores, the ones that CRI-O's configuration lists, and its
// other additional image stores: folders, or stores of other programs.
func (n *Node) slots() (slots, configured, others []string) {
	stores := n.crio.Stores()
	slots, configured = n.slotsIn(stores)
	for _, store := range stores {
		if filepath.Dir(store) != layout.SlotsDir && !slices.Contains(slots, store) {
			others = append(others, store)
		}
	}
	return slots, configured, others
}

// slotsIn returns the mount points of stores, and those that are among some stores.
func (n *Node) slotsIn(stores []string) (slots, among []string) {
	for _, slot := range crio.Slots() {
		here := filepath.Join(n.stateDir(), "stores", filepath.Base(slot))
		slots = append(slots, here)
		if slices.Contains(stores, slot) || slices.Contains(stores, here) {
			among = append(among, here)
		}
	}
	return slots, among
}

// ErrTwice means that CRI-O lists the images of a store twice.
var ErrTwice = errors.New("two options of CRI-O name the same store, and CRI-O lists its images twice")

// checkTwice returns an ErrTwice if the configuration has a store by two names.
func checkTwice(stores []string) error {
	names := map[string]string{}
	for _, name := range stores {
		store := name
		if path, err := filepath.EvalSymlinks(store); err == nil {
			store = path
		}
		if earlier, ok := names[store]; ok {
			return fmt.Errorf("%w: %s and %s; remove one of them from storage.conf or the files of CRI-O", ErrTwice,
				earlier, name)
		}
		names[store] = name
	}
	return nil
}

// reconcileStores mounts the attached stores, for a pass; or it only reads their state, while
// another pinbox-node changes them, or for a verb that changes nothing.
func (n *Node) reconcileStores(ctx context.Context, readOnly bool) ([]runtime.StoreStatus, error) {
	m, err := n.manager()
	if err != nil {
		return nil, err
	}
	m.Wait = 0
	var all []stores.Status
	if readOnly {
		all, err = m.Status(ctx)
	} else {
		if all, err = m.Reconcile(ctx, nil); errors.Is(err, stores.ErrBusy) {
			all, err = m.Status(ctx)
		}
		err = errors.Join(err, n.linkArtifacts(), n.mend(ctx, false))
	}
	return append(storeStatuses(all), n.composingStores()...), err
}

// releases are those that the node keeps; none before the first attach, or if the state cannot be read, which others
// report.
func (n *Node) releases() (all []runtime.ReleaseStatus) {
	state, _ := stores.ReadState(filepath.Join(n.stateDir(), layout.AttachedDir))
	releases, standings := state.Standings()
	for i, r := range releases {
		var sets []pinset.Set
		for _, name := range slices.Sorted(maps.Keys(r.Sets)) {
			decoded, _, _ := pinset.DecodeSets(strings.NewReader(r.Sets[name]), name) // of a broken one, what is there
			sets = append(sets, decoded...)
		}
		all = append(all, runtime.ReleaseStatus{
			ReleaseID: r.ReleaseID, State: standings[i], Digest: r.ID.String(), Images: len(pinset.Union(sets...)),
			Attached: r.Attached,
		})
	}
	return all
}

// aside are the records that are set aside on the node. hidden are slots that CRI-O does not have.
func (n *Node) aside(hidden ...string) aside.Records {
	_, configured, others := n.slots()
	visible := slices.DeleteFunc(append(configured, others...), func(slot string) bool {
		return slices.Contains(hidden, slot)
	})
	return aside.Records{
		Dir: filepath.Join(n.stateDir(), layout.AttachedDir), Main: n.crio.Roots(), Others: visible, Wait: n.s.Wait,
	}
}

// mend sets records of CRI-O's own store aside that stand on a store which is gone, if CRI-O starts only then, and
// puts back others. If it is unknown which stores CRI-O has, it does nothing, and others report why.
func (n *Node) mend(ctx context.Context, starts bool) error {
	if n.crioErr != nil {
		return nil
	}
	records := n.aside()
	if !starts {
		records.Wait = 0
	}
	return records.Mend(ctx, starts)
}

// linkArtifacts makes the folder of the state an artifact store of CRI-O with the OCI artifacts of the mounted stores.
func (n *Node) linkArtifacts() error {
	slots, _, others := n.slots()
	if err := stores.LinkArtifacts(n.stateDir(), append(slots, others...)); err != nil {
		return fmt.Errorf("OCI artifacts: %w", err)
	}
	return nil
}

func storeStatuses(all []stores.Status) []runtime.StoreStatus {
	list := []runtime.StoreStatus{}
	for _, s := range all {
		status := runtime.StoreStatus{
			Slot: s.Slot, Digest: s.ID.String(), ReleaseID: s.ReleaseID, State: runtime.StoreMounted,
			Images: s.Images, Bytes: s.Size,
			Path: s.Path, Current: s.Current, Previous: s.Previous,
		}
		if s.Problem != nil {
			status.State = runtime.StoreUnavailable
			if s.Refused {
				status.State = runtime.StoreRefused
			}
			status.Error = strings.ReplaceAll(s.Problem.Error(), "\n", "; ")
		} else {
			status.Verity = verityStatus(s.Verification)
			status.Error = status.Verity.Problem(s.Images)
		}
		list = append(list, status)
	}
	return list
}

func verityStatus(v mount.Verification) *runtime.VerityStatus {
	status := &runtime.VerityStatus{State: runtime.Unverified, Reason: v.Reason, CorruptOffsets: v.Offsets}
	switch {
	case v.Corrupted:
		status.State = runtime.Corrupted
	case v.Verified:
		status.State = runtime.Verified
	}
	return status
}

// ownStore returns how the appliance's own store is verified; nil if it is not mounted.
func (n *Node) ownStore(ctx context.Context) (*runtime.VerityStatus, error) {
	m, err := n.manager()
	if err != nil {
		return nil, err
	}
	found, err := m.Own(ctx)
	if err != nil || found == nil {
		return nil, err
	}
	return verityStatus(*found), nil
}
