package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// slots are the mount points for additional image stores of CRI-O.
type slots struct {
	// all of them; the first is for the appliance's own store.
	all []string
	// configured are the slots that CRI-O's configuration names. configError is why that could
	// not be read.
	configured  []string
	configError error
	// others are the graph roots of other additional image stores of CRI-O.
	others []string
	// own is the digest of the file of the appliance's own store, "" if it is unknown.
	own digest.Digest
}

// attachable are the slots for attached stores.
func (s slots) attachable() []string {
	return slices.DeleteFunc(slices.Clone(s.configured), func(slot string) bool { return slot == s.all[0] })
}

// path is the mount point of a store.
func (s slots) path(o Store) string { return filepath.Join(filepath.Dir(s.all[0]), o.Slot) }

// mountedExcept lists the slots at which a store is mounted, except the slot of o.
func (s slots) mountedExcept(o Store, mounted mount.Table) (found []string) {
	for _, slot := range s.all {
		if mounted[slot] > 0 && slot != s.path(o) {
			found = append(found, slot)
		}
	}
	return found
}

// findIdentical finds a store of the same release, with the same images and sets, that was not attached: the
// appliance's own, or another additional image store.
func (s slots) findIdentical(c content) (root string, ok bool) {
	for _, root := range append([]string{s.all[0]}, s.others...) {
		tree := os.DirFS(root)
		if got, err := token(tree); err != nil || got != c.Token {
			continue
		}
		if other, err := readContent(tree); err == nil && other.Lock.ReleaseID == c.Lock.ReleaseID &&
			slices.EqualFunc(other.Lock.Sets, c.Lock.Sets, equalSets) {
			return root, true
		}
	}
	return "", false
}

func equalSets(a, b pinset.LockedSet) bool {
	return a.Name == b.Name && slices.Equal(a.Images, b.Images)
}

// ErrNoBase means that a layer which a delta needs is in no mounted store.
var ErrNoBase = fault.New(fault.Input, "the base of the store is not on this node",
	"attach the stores in between first, or build a delta for what this node has with `pinbox delta --from`")

// errNotMounted means that a store is intact but not mounted.
var errNotMounted = errors.New("it is not mounted: `pinbox-node mount` mounts it")

// mounts mounts attached stores at their slots, and decides which of them can be mounted. A store
// that is damaged, or whose base is not mounted, is never mounted: with it, CRI-O could not list
// any image.
type mounts struct {
	slots   slots
	sources sources
	mounter mount.Mounter
	// trial is a mount point that CRI-O does not read.
	trial          string
	selinuxContext string
	verifier       mount.Verifier
}

// diagnose returns why a store is not mounted; nil if it is.
func (m mounts) diagnose(ctx context.Context, o Store) (problem, err error) {
	mounted, err := mount.ReadTable()
	if err != nil {
		return nil, err
	}
	if problem = m.problem(o, mounted); errors.Is(problem, errNotMounted) {
		if _, err := m.prepare(o, mounted); err != nil {
			problem = err
		} else if _, err := m.verifier.Decide(ctx, o.Verity, o.Path != ""); err != nil {
			problem = err
		}
	}
	return problem, nil
}

// problem returns why the mount at a store's slot must be unmounted; errNotMounted if there is
// none.
func (m mounts) problem(o Store, mounted mount.Table) error {
	slot := m.slots.path(o)
	if mounted[slot] == 0 {
		return errNotMounted
	}
	if o.Medium { // a removed medium stays mounted, but is not fully in the page cache
		if _, err := m.sources.findMedium(o); err != nil {
			return err
		}
	}
	c, err := audit.Records(os.DirFS(slot))
	if c.Token != o.Token {
		return errors.Join(fmt.Errorf("%s has another store", slot), err)
	}
	if err == nil {
		_, err = m.bases(o, c.Delta, mounted)
	}
	return err
}

// unmountBroken unmounts the stores that are damaged or whose base is not mounted. It repeats
// that until no more are found, since each may be the base of another.
func (m mounts) unmountBroken(ctx context.Context, all []Store, found problems) error {
	for again := true; again; {
		again = false
		for _, o := range all {
			mounted, err := mount.ReadTable()
			if err != nil {
				return err
			}
			slot := m.slots.path(o)
			for ; mounted[slot] > 1; mounted[slot]-- {
				if err := mount.UnmountTop(ctx, m.mounter, slot); err != nil {
					return err
				}
			}
			problem := m.problem(o, mounted)
			if problem == nil || errors.Is(problem, errNotMounted) {
				continue
			}
			if err := m.unmount(ctx, o); err != nil {
				found[o.ID] = errors.Join(problem, err)
				continue
			}
			found[o.ID], again = problem, true
		}
	}
	return nil
}

// mountIntact mounts the stores that are intact and whose base is mounted. It repeats that until
// no more can be mounted, since each may be the base of another.
func (m mounts) mountIntact(ctx context.Context, all []Store, found problems) error {
	for again := true; again; {
		again = false
		for _, o := range all {
			mounted, err := mount.ReadTable()
			if err != nil {
				return err
			}
			if mounted[m.slots.path(o)] > 0 || o.Removing {
				continue
			}
			found[o.ID] = m.mount(ctx, o, mounted)
			if err := ctx.Err(); err != nil { // interrupted: not a problem of the store
				return err
			}
			if found[o.ID] == nil {
				delete(found, o.ID)
				again = true
			}
		}
	}
	return nil
}

// mount mounts a store and checks what is mounted.
func (m mounts) mount(ctx context.Context, o Store, mounted mount.Table) error {
	what, err := m.prepare(o, mounted)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(what.Where, 0o755); err != nil {
		return err
	}
	if err := m.start(ctx, o, what); err != nil {
		return err
	}
	mounted[what.Where]++
	if err := m.problem(o, mounted); err != nil {
		return errors.Join(err, m.unmount(ctx, o))
	}
	return nil
}

// start mounts a store, by dm-verity if that is possible and not switched off.
func (m mounts) start(ctx context.Context, o Store, what mount.Mount) error {
	verified, err := m.verifier.Decide(ctx, o.Verity, o.Path != "")
	if err != nil {
		return err
	}
	if !verified {
		return m.mounter.Mount(ctx, what)
	}
	e, err := m.sources.extent(o)
	if err != nil {
		return err
	}
	return m.verifier.Mount(ctx, m.mounter, what, e, o.Verity)
}

// unmount unmounts everything at a store's slot.
func (m mounts) unmount(ctx context.Context, o Store) error {
	return mount.UnmountAll(ctx, m.mounter, m.slots.path(o))
}

// prepare reads a store that is not mounted and finds its bases.
func (m mounts) prepare(o Store, mounted mount.Table) (mount.Mount, error) {
	delta, e, err := m.sources.readDelta(o)
	if err != nil {
		return mount.Mount{}, err
	}
	bases, err := m.bases(o, delta, mounted)
	return mount.Mount{
		What: e.Path, Where: m.slots.path(o), Options: m.options(e), Bases: bases, Description: o.Title(),
	}, err
}

// options returns the mount options for a store. With nosuid and nodev, setuid programs and device
// nodes on a medium do not give root to users of the node. Containers are not affected: they use
// overlay mounts of their own.
func (m mounts) options(e mount.Extent) []string {
	options := []string{"ro", "nosuid", "nodev", "loop"}
	if e.Offset > 0 {
		options = append(options, fmt.Sprintf("offset=%d", e.Offset), fmt.Sprintf("sizelimit=%d", e.Size))
	}
	if m.selinuxContext != "" {
		options = append(options, "context="+strconv.Quote(m.selinuxContext))
	}
	return options
}

// bases finds the slots of the stores that have the layers which a store needs. The error is
// ErrNoBase if a layer is in no mounted store.
func (m mounts) bases(o Store, d pinset.Delta, mounted mount.Table) (found []string, err error) {
	roots := append(slices.Clone(m.slots.others), m.slots.mountedExcept(o, mounted)...)
	has, missing := providers(roots, d.Needs)
	for _, root := range has {
		if slices.Contains(m.slots.all, root) {
			found = append(found, root)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	var wanted []string
	for _, b := range d.Bases {
		id := "a store of the lock " + Short(b.Lock)
		if b.Store != "" {
			id = Short(b.Store)
		}
		wanted = append(wanted, id)
	}
	return nil, fmt.Errorf("%w: %d of %d layers are missing, such as %s; its base is %s",
		ErrNoBase, len(missing), len(d.Needs), missing[0].Layer, strings.Join(wanted, ", or "))
}

// providers finds the stores that have these layers with these link names (the short names in
// overlay/l). containers/storage finds the layers below a layer by their link names; a pull makes
// random ones. pinbox makes a link name from the ID of its layer, so the name identifies the layer.
func providers(roots []string, needs []pinset.Need) (has []string, missing []pinset.Need) {
	if len(needs) == 0 {
		return nil, nil
	}
	found := make([]bool, len(needs))
	for _, root := range roots {
		layers, links := names(filepath.Join(root, "overlay")), names(filepath.Join(root, "overlay/l"))
		some := false
		for i, n := range needs {
			if !found[i] && layers[n.Layer] && links[n.Link] {
				found[i], some = true, true
			}
		}
		if some {
			has = append(has, root)
		}
	}
	for i, n := range needs {
		if !found[i] {
			missing = append(missing, n)
		}
	}
	return has, missing
}

// names are the names of the entries of a folder; none if it cannot be read.
func names(dir string) map[string]bool {
	entries, _ := os.ReadDir(dir)
	all := make(map[string]bool, len(entries))
	for _, e := range entries {
		all[e.Name()] = true
	}
	return all
}

// tryMount mounts a store at the trial mount point, checks its records and unmounts it.
func (m mounts) tryMount(ctx context.Context, o Store) error {
	e, err := m.sources.extent(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.trial, 0o700); err != nil {
		return err
	}
	err = m.start(ctx, o, mount.Mount{What: e.Path, Where: m.trial, Options: m.options(e), Description: o.Title()})
	if err == nil {
		_, err = audit.Records(os.DirFS(m.trial))
	}
	return errors.Join(err, m.endTrial(ctx))
}

// endTrial unmounts the trial mount and removes its mount point.
func (m mounts) endTrial(ctx context.Context) error {
	if err := mount.UnmountAll(ctx, m.mounter, m.trial); err != nil {
		return err
	}
	if err := os.Remove(m.trial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
