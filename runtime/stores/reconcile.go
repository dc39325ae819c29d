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
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Status is how a store is.
type Status struct {
	Store
	// Current says that its sets count; Previous, that `rollback` makes them count.
	Current, Previous bool
	// Problem is why it is not mounted; nil if it is.
	Problem error
}

// What can be wrong with a store that was attached.
var (
	ErrLost   = errors.New("the file of the store is not there")
	ErrNoBase = errors.New("what the store stands on is not on this node")
)

// Reconcile makes the node as the state says: what is whole and has its base is mounted,
// what is not is not. stopped says whether CRI-O does not run, so that a compacted store
// may take its place; nil if it does.
func (k Manager) Reconcile(ctx context.Context, stopped func() bool) ([]Status, error) {
	if _, err := os.Stat(stateFile(k.Dir)); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(k.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil, nil // no store ever came
		}
	}
	release, err := k.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	s, err := ReadState(k.Dir)
	if err != nil {
		return nil, err
	}
	if k.Unconfigured {
		k.SELinuxContext = s.SELinuxContext
	}
	var notReplaced error
	if s.Compaction != nil && stopped != nil && stopped() {
		notReplaced = k.replaceByCompacted(ctx, &s)
	}
	problems, err := k.settle(ctx, &s)
	return s.statuses(problems), errors.Join(notReplaced, err)
}

// Look tells how the stores are, and changes nothing. While another pinbox-node is at
// them one may be away for a moment only, of which nobody is told.
func (k Manager) Look() ([]Status, error) {
	for deadline := time.Now().Add(moment); ; time.Sleep(50 * time.Millisecond) {
		busy := k.held(stateLock)
		all, err := k.glance()
		away := slices.ContainsFunc(all, func(s Status) bool { return s.Problem != nil })
		busy = k.held(stateLock) || busy
		if err != nil || !away || !busy || time.Now().After(deadline) {
			return all, err
		}
	}
}

// moment is what it takes to mount a store on a slow machine. A copy takes longer: what is
// away meanwhile, is.
const moment = 5 * time.Second

// glance tells how the stores are now.
func (k Manager) glance() ([]Status, error) {
	s, err := ReadState(k.Dir)
	if err != nil {
		return nil, err
	}
	problems := map[digest.Digest]error{}
	for _, o := range s.Stores {
		if problems[o.ID], err = k.problem(o); err != nil {
			return nil, err
		}
	}
	return s.statuses(problems), nil
}

// problem is why a store is away; nil if it is mounted.
func (k Manager) problem(o Store) (why, err error) {
	at, err := mounts()
	if err != nil {
		return nil, err
	}
	if why = k.amiss(o, at); why == errNotMounted {
		if _, err := k.prepare(o, at); err != nil {
			why = err
		}
	}
	return why, nil
}

func (s *State) statuses(problems map[digest.Digest]error) []Status {
	var all []Status
	current, previous := s.release(s.Current), s.previous()
	for _, o := range s.Stores {
		all = append(all, Status{
			Store: o, Problem: problems[o.ID],
			Current: current != nil && current.Store == o.ID, Previous: previous != nil && previous.Store == o.ID,
		})
	}
	return all
}

// settle gives what is wrong with the stores that are not mounted.
func (k Manager) settle(ctx context.Context, s *State) (problems map[digest.Digest]error, err error) {
	if err := k.sweep(s); err != nil {
		return nil, err
	}
	if err := k.endTrial(ctx); err != nil {
		return nil, err
	}
	// What goes wrong with one store keeps nobody from the others.
	problems = map[digest.Digest]error{}
	for _, o := range slices.Clone(s.Stores) {
		switch {
		case o.Gone:
			err = k.remove(ctx, s, o)
		case o.Leaving != "":
			err = k.leave(ctx, s, o)
		default:
			continue
		}
		if err != nil {
			problems[o.ID] = err
		}
	}
	if err := k.dismount(ctx, s, problems); err != nil {
		return nil, err
	}
	if err := k.remount(ctx, s, problems); err != nil {
		return nil, err
	}
	return problems, k.follow(s, problems)
}

// sweep removes files that a run which was killed has left.
func (k Manager) sweep(s *State) error {
	if err := os.Remove(k.part()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known := map[string]bool{}
	for _, o := range s.Stores {
		known[filepath.Base(k.file(o))] = true
	}
	if s.Compaction != nil {
		known[filepath.Base(k.file(s.Compaction.Store))] = true
	}
	if k.held(compactLock) {
		known[filepath.Base(k.compacted())], known[filepath.Base(k.compacted())+partSuffix] = true, true
	}
	entries, err := os.ReadDir(k.Dir)
	for _, e := range entries {
		ours := strings.HasSuffix(e.Name(), fileSuffix) || strings.HasSuffix(e.Name(), partSuffix)
		if ours && !known[e.Name()] && !e.IsDir() {
			err = errors.Join(err, os.Remove(filepath.Join(k.Dir, e.Name())))
		}
	}
	return err
}

// errNotMounted is no fault yet.
var errNotMounted = errors.New("it is not mounted: `pinbox-node mount` mounts it")

// amiss says why a store may not be where it is.
func (k Manager) amiss(o Store, at map[string]int) error {
	slot := k.slot(o)
	if at[slot] == 0 {
		return errNotMounted
	}
	if o.Medium { // what the kernel remembers of it is not all
		if _, err := k.medium(o); err != nil {
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
	_, err = k.bases(o, delta, at)
	return err
}

// dismount takes away what is not whole, or has lost what it stands on: with it CRI-O
// could not list a single image.
func (k Manager) dismount(ctx context.Context, s *State, problems map[digest.Digest]error) error {
	for again := true; again; {
		again = false
		for _, o := range s.Stores {
			at, err := mounts()
			if err != nil {
				return err
			}
			slot := k.slot(o)
			for ; at[slot] > 1; at[slot]-- {
				if err := unmount(slot); err != nil {
					return err
				}
			}
			why := k.amiss(o, at)
			if why == nil || why == errNotMounted {
				continue
			}
			if err := unmountAll(ctx, k.Mounter, slot); err != nil {
				problems[o.ID] = errors.Join(why, err)
				continue
			}
			problems[o.ID], again = why, true
		}
	}
	return nil
}

// remount mounts what is whole and has its base.
func (k Manager) remount(ctx context.Context, s *State, problems map[digest.Digest]error) error {
	for again := true; again; {
		again = false
		for _, o := range s.Stores {
			at, err := mounts()
			if err != nil {
				return err
			}
			if at[k.slot(o)] > 0 || o.Gone {
				continue
			}
			problems[o.ID] = k.mount(ctx, o, at)
			if err := ctx.Err(); err != nil { // no fault of the store, which may yet be mounted
				return err
			}
			if problems[o.ID] == nil {
				delete(problems, o.ID)
				again = true
			}
		}
	}
	return nil
}

// mount mounts a store, and looks whether it can be read.
func (k Manager) mount(ctx context.Context, o Store, at map[string]int) error {
	m, err := k.prepare(o, at)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.Where, 0o755); err != nil {
		return err
	}
	if err := k.Mounter.Mount(ctx, m); err != nil {
		return err
	}
	at[m.Where]++
	if err := k.amiss(o, at); err != nil {
		return errors.Join(err, unmountAll(ctx, k.Mounter, m.Where))
	}
	return nil
}

// prepare looks into a store that is not mounted, and finds what it stands on.
func (k Manager) prepare(o Store, at map[string]int) (Mount, error) {
	delta, e, err := k.look(o)
	if err != nil {
		return Mount{}, err
	}
	bases, err := k.bases(o, delta, at)
	return Mount{What: e.Path, Where: k.slot(o), Options: k.options(e), Bases: bases, About: o.title()}, err
}

// options of a mount. Programs and devices of an image are for its containers, which
// see them by a mount of their own: nobody else gets root by a medium.
func (k Manager) options(e Extent) []string {
	options := []string{"ro", "nosuid", "nodev", "loop"}
	if e.Offset > 0 {
		options = append(options, fmt.Sprintf("offset=%d", e.Offset), fmt.Sprintf("sizelimit=%d", e.Size))
	}
	if k.SELinuxContext != "" {
		options = append(options, "context="+strconv.Quote(k.SELinuxContext))
	}
	return options
}

// title is how people know a store.
func (o Store) title() string {
	if o.Name == "" {
		return Short(o.ID)
	}
	return o.Name + " " + Short(o.ID)
}

// look reads the description of a store that need not be mounted.
func (k Manager) look(o Store) (pinset.Delta, Extent, error) {
	image, e, err := k.open(o)
	if err != nil {
		return pinset.Delta{}, e, err
	}
	defer image.Close()
	got, err := token(image)
	if err == nil && got != o.Token {
		err = errors.New("it is another store")
	}
	if err != nil {
		return pinset.Delta{}, e, fmt.Errorf("%s: %w: %w", e.Path, ErrDamaged, err)
	}
	delta, err := readDelta(image)
	return delta, e, err
}

// bases are the mount points of the stores that have what a store needs.
func (k Manager) bases(o Store, d pinset.Delta, at map[string]int) (found []string, err error) {
	roots := slices.Clone(k.Others)
	for _, slot := range k.Slots {
		if at[slot] > 0 && slot != k.slot(o) {
			roots = append(roots, slot)
		}
	}
	has, lacks := providers(roots, d.Needs)
	for _, root := range has {
		if slices.Contains(k.Slots, root) {
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

// providers finds the stores that have these layers, under these links. A layer under
// another link, as a pull would have it, is none to stand on. A link is made of its
// layer's ID, so that its name tells whose it is.
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

// part is a file in the folder of sets that is being written: hidden, so it is no set.
func (k Manager) part() string { return filepath.Join(k.Sets, ".pinbox"+partSuffix) }

// follow has the folder of sets be that of the current release, once its store is
// mounted. What comes goes before what goes; files that came with no release stay.
func (k Manager) follow(s *State, problems map[digest.Digest]error) error {
	if !s.Switching {
		return nil
	}
	current := s.release(s.Current)
	if current == nil || problems[current.Store] != nil {
		return nil
	}
	if err := os.MkdirAll(k.Sets, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(current.Sets)) {
		if _, err := atomicfile.WriteVia(k.part(), filepath.Join(k.Sets, name), []byte(current.Sets[name]), 0o644); err != nil {
			return err
		}
	}
	for _, name := range s.Replaced {
		if _, kept := current.Sets[name]; kept {
			continue
		}
		if err := os.Remove(filepath.Join(k.Sets, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.Switching, s.Replaced = false, nil
	return s.write(k.Dir)
}
