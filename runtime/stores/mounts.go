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

	"github.com/pinbox/pinbox/storage/pinset"
)

// slots are the mount points at which CRI-O looks for read-only stores.
type slots struct {
	// all of them; the first is the appliance's own.
	all []string
	// read are those that CRI-O reads, unless unreadable says what is wrong with its
	// configuration.
	read       []string
	unreadable error
	// others are the roots of further read-only stores that CRI-O reads.
	others []string
}

// attachable are the slots for stores that are attached.
func (s slots) attachable() []string {
	return slices.DeleteFunc(slices.Clone(s.read), func(slot string) bool { return slot == s.all[0] })
}

// path is the mount point of a store.
func (s slots) path(o Store) string { return filepath.Join(filepath.Dir(s.all[0]), o.Slot) }

// mountedBeside are the slots where a store is mounted, but for that of o.
func (s slots) mountedBeside(o Store, mounted mountTable) (found []string) {
	for _, slot := range s.all {
		if mounted[slot] > 0 && slot != s.path(o) {
			found = append(found, slot)
		}
	}
	return found
}

// findIdentical finds a store with the same content that was not attached: the appliance's
// own, on whatever medium, or one that another program mounts.
func (s slots) findIdentical(c content) (root string, ok bool) {
	for _, root := range append([]string{s.all[0]}, s.others...) {
		tree := os.DirFS(root)
		if got, err := token(tree); err != nil || got != c.Token {
			continue
		}
		if there, err := readContent(tree); err == nil && slices.EqualFunc(there.Lock.Sets, c.Lock.Sets, equalSets) {
			return root, true
		}
	}
	return "", false
}

func equalSets(a, b pinset.LockedSet) bool {
	return a.Name == b.Name && slices.Equal(a.Images, b.Images)
}

// ErrNoBase says that a delta cannot be mounted.
var ErrNoBase = errors.New("the base of the store is not on this node")

// errNotMounted is not an error of the store: it can be mounted.
var errNotMounted = errors.New("it is not mounted: `pinbox-node mount` mounts it")

// mounts mounts attached stores at their slots, and decides which of them can be mounted.
// With a store that is damaged or lacks its base, CRI-O could not list a single image.
type mounts struct {
	slots   slots
	sources sources
	mounter Mounter
	// trial is a mount point at which CRI-O does not look.
	trial          string
	selinuxContext string
}

// diagnose says why a store is not mounted; nil if it is.
func (m mounts) diagnose(o Store) (problem, err error) {
	mounted, err := readMountTable()
	if err != nil {
		return nil, err
	}
	if problem = m.problem(o, mounted); problem == errNotMounted {
		if _, err := m.prepare(o, mounted); err != nil {
			problem = err
		}
	}
	return problem, nil
}

// problem says why what is mounted at a store's slot may not stay there. It is errNotMounted
// if nothing is.
func (m mounts) problem(o Store, mounted mountTable) error {
	slot := m.slots.path(o)
	if mounted[slot] == 0 {
		return errNotMounted
	}
	if o.Medium { // the kernel has not cached all of it
		if _, err := m.sources.findMedium(o); err != nil {
			return err
		}
	}
	tree := os.DirFS(slot)
	if got, err := token(tree); err != nil || got != o.Token {
		return errors.Join(fmt.Errorf("%s holds another store", slot), err)
	}
	if err := readable(tree); err != nil {
		return err
	}
	delta, err := readDelta(tree)
	if err != nil {
		return err
	}
	_, err = m.bases(o, delta, mounted)
	return err
}

// unmountBroken unmounts the stores that are damaged or have lost their base, until none is
// left: each may be the base of another.
func (m mounts) unmountBroken(ctx context.Context, all []Store, found problems) error {
	for again := true; again; {
		again = false
		for _, o := range all {
			mounted, err := readMountTable()
			if err != nil {
				return err
			}
			slot := m.slots.path(o)
			for ; mounted[slot] > 1; mounted[slot]-- {
				if err := unmount(slot); err != nil {
					return err
				}
			}
			problem := m.problem(o, mounted)
			if problem == nil || problem == errNotMounted {
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

// mountIntact mounts the stores that are intact and have their base, until no more can be
// mounted: each may be the base of another.
func (m mounts) mountIntact(ctx context.Context, all []Store, found problems) error {
	for again := true; again; {
		again = false
		for _, o := range all {
			mounted, err := readMountTable()
			if err != nil {
				return err
			}
			if mounted[m.slots.path(o)] > 0 || o.Removing {
				continue
			}
			found[o.ID] = m.mount(ctx, o, mounted)
			if err := ctx.Err(); err != nil { // not the store's fault: it may yet be mounted
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

// mount mounts a store, and checks that it can be read.
func (m mounts) mount(ctx context.Context, o Store, mounted mountTable) error {
	mount, err := m.prepare(o, mounted)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(mount.Where, 0o755); err != nil {
		return err
	}
	if err := m.mounter.Mount(ctx, mount); err != nil {
		return err
	}
	mounted[mount.Where]++
	if err := m.problem(o, mounted); err != nil {
		return errors.Join(err, m.unmount(ctx, o))
	}
	return nil
}

// unmount unmounts all that is mounted at a store's slot.
func (m mounts) unmount(ctx context.Context, o Store) error {
	return unmountAll(ctx, m.mounter, m.slots.path(o))
}

// prepare reads a store that is not mounted, and finds its bases.
func (m mounts) prepare(o Store, mounted mountTable) (Mount, error) {
	delta, e, err := m.sources.describe(o)
	if err != nil {
		return Mount{}, err
	}
	bases, err := m.bases(o, delta, mounted)
	return Mount{What: e.Path, Where: m.slots.path(o), Options: m.options(e), Bases: bases, Description: o.title()}, err
}

// options of a mount. The programs and devices in an image are for its containers, which see
// them through mounts of their own. nosuid and nodev keep a medium from giving root to anybody
// else.
func (m mounts) options(e Extent) []string {
	options := []string{"ro", "nosuid", "nodev", "loop"}
	if e.Offset > 0 {
		options = append(options, fmt.Sprintf("offset=%d", e.Offset), fmt.Sprintf("sizelimit=%d", e.Size))
	}
	if m.selinuxContext != "" {
		options = append(options, "context="+strconv.Quote(m.selinuxContext))
	}
	return options
}

// bases are the slots of the stores that have the layers which a store needs. The error is
// ErrNoBase if a layer is in no mounted store.
func (m mounts) bases(o Store, d pinset.Delta, mounted mountTable) (found []string, err error) {
	roots := append(slices.Clone(m.slots.others), m.slots.mountedBeside(o, mounted)...)
	has, lacks := providers(roots, d.Needs)
	for _, root := range has {
		if slices.Contains(m.slots.all, root) {
			found = append(found, root)
		}
	}
	if len(lacks) == 0 {
		return found, nil
	}
	var made []string
	for _, b := range d.Bases {
		id := "a store of the lock " + Short(b.Lock)
		if b.Store != "" {
			id = Short(b.Store)
		}
		made = append(made, id)
	}
	return nil, fmt.Errorf("%w: %d of %d layers are missing, such as %s; it was made for %s",
		ErrNoBase, len(lacks), len(d.Needs), lacks[0].Layer, strings.Join(made, ", or "))
}

// providers finds the stores that have these layers, under these links. A layer under another
// link, as after a pull, cannot be a base. A link is made of its layer's ID, so its name tells
// whose it is.
func providers(roots []string, needs []pinset.Need) (has []string, lacks []pinset.Need) {
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
			lacks = append(lacks, n)
		}
	}
	return has, lacks
}

// names of what is in a folder; of one that cannot be read, none.
func names(dir string) map[string]bool {
	entries, _ := os.ReadDir(dir)
	all := make(map[string]bool, len(entries))
	for _, e := range entries {
		all[e.Name()] = true
	}
	return all
}

// try has the kernel mount a store where CRI-O does not look.
func (m mounts) try(ctx context.Context, o Store) error {
	e, err := m.sources.extent(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.trial, 0o700); err != nil {
		return err
	}
	err = m.mounter.Mount(ctx, Mount{What: e.Path, Where: m.trial, Options: m.options(e), Description: o.title()})
	if err == nil {
		err = readable(os.DirFS(m.trial))
	}
	return errors.Join(err, m.endTrial(ctx))
}

// endTrial removes what a trial has left.
func (m mounts) endTrial(ctx context.Context) error {
	if err := unmountAll(ctx, m.mounter, m.trial); err != nil {
		return err
	}
	if err := os.Remove(m.trial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
