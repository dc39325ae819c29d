package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What stands against attaching a store.
var (
	ErrPlatform = errors.New("the store is for another architecture")
	ErrNoSlot   = errors.New("every slot has a store")
	ErrUnread   = errors.New("CRI-O is not configured to read stores at the slots")
	ErrInPlace  = errors.New("a node that wants signatures uses no medium in place")
)

// AttachOptions of a store.
type AttachOptions struct {
	// Source is the store's file, a folder with it, or the device of a medium.
	Source string
	// Digest of the file, where nothing beside it tells.
	Digest digest.Digest
	// InPlace uses the store where it is, rather than to copy it.
	InPlace bool
	// Auto says that nobody asked for it: a store that is there already, or was once,
	// changes nothing, and another waits for those before it, however long those take.
	Auto bool
	// KeepSets leaves the sets as they are.
	KeepSets bool
	// Fits says why there is no room for so many bytes in the state's folder.
	Fits func(bytes int64) error
	// Done is called with the bytes that were read, of all; nil is fine.
	Done func(done, all int64)
}

// Attached is what came of it.
type Attached struct {
	Store Store
	// Found says that it was there already, or once if it has no slot.
	Found bool
	// Appliance says that it is the node's own store, or one beside it.
	Appliance bool
	// Unchecked says that it has a signature, and the node no keys.
	Unchecked bool
}

// Attach brings a store to the node, and has its sets count. It is copied, compressed
// as it is; CRI-O sees its images at once.
func (k Manager) Attach(ctx context.Context, o AttachOptions) (a Attached, err error) {
	if o.Auto { // nobody is there to do it again
		k.Wait = math.MaxInt64
	}
	s, release, err := k.begin(ctx)
	if err != nil {
		return a, err
	}
	defer release()
	src, err := k.find(o.Source, o.Digest)
	if err != nil {
		return a, err
	}
	image, err := k.Open(src.Extent)
	if err != nil {
		return a, fmt.Errorf("%s: %w: %w", src.Path, ErrDamaged, err)
	}
	defer image.Close()
	c, err := readContent(image)
	if err == nil {
		err = c.stands(image)
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w", src.Path, err)
	}
	if known := s.known(src.id); known != nil {
		if err := k.mend(ctx, &s, src, o); err != nil {
			return a, err
		}
		return k.again(ctx, &s, *known, o)
	}
	if o.Auto && slices.Contains(s.Past, src.id) { // it would make an old release current
		return Attached{Store: Store{ID: src.id, Images: len(c.Lock.Images)}, Found: true}, nil
	}
	if at, ok := k.beside(c); ok {
		if own := s.release(""); own != nil && s.Current != "" && !o.Auto && !o.KeepSets {
			err = k.turn(ctx, &s, *own)
		}
		return Attached{Store: Store{ID: src.id, Slot: filepath.Base(at), Images: len(c.Lock.Images)}, Found: true, Appliance: true}, err
	}
	return k.add(ctx, &s, src, c, o)
}

// known finds the release of a store that came before, even if that was compacted since.
func (s *State) known(id digest.Digest) *Release {
	if r := s.release(id); r != nil && s.store(r.Store) != nil {
		return r
	}
	if o := s.store(id); o != nil {
		return &Release{ID: id, Store: id, Name: o.Name}
	}
	return nil
}

// mend brings a store again whose file is lost or damaged, or was used in place.
func (k Manager) mend(ctx context.Context, s *State, src source, o AttachOptions) error {
	there := s.store(src.id)
	if there == nil {
		return nil
	}
	why, err := k.problem(*there)
	stays := there.Place == "" || o.InPlace || o.Auto // where it is
	if err != nil || stays && (why == nil || errors.Is(why, ErrNoBase)) {
		return err
	}
	mended := *there
	mended.Place, mended.Offset, mended.Medium = "", 0, false
	if err := k.bring(ctx, &mended, src, o); err != nil {
		return err
	}
	*there = mended
	return errors.Join(k.confirm(ctx, s, src.id))
}

// again makes the release of a store current that is there.
func (k Manager) again(ctx context.Context, s *State, r Release, o AttachOptions) (Attached, error) {
	a := Attached{Store: *s.store(r.Store), Found: true}
	if o.Auto || o.KeepSets || s.Current == r.ID {
		return a, nil
	}
	if r.Sets == nil { // it came without
		c, err := readContent(os.DirFS(k.slot(a.Store)))
		if err != nil {
			return a, err
		}
		r.Sets = c.Sets
	}
	return a, k.turn(ctx, s, r)
}

// beside finds a store with the same content that did not come by Attach: the
// appliance's own, on whatever medium.
func (k Manager) beside(c content) (root string, ok bool) {
	for _, root := range append([]string{k.Slots[0]}, k.Others...) {
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

// add attaches a store that is not there yet.
func (k Manager) add(ctx context.Context, s *State, src source, c content, o AttachOptions) (a Attached, err error) {
	if _, arch, _ := c.Lock.Platform.Split(); arch != goruntime.GOARCH {
		return a, fmt.Errorf("%s: %w: %s", src.Path, ErrPlatform, c.Lock.Platform)
	}
	at, err := mounts()
	if err != nil {
		return a, err
	}
	store := Store{ID: src.id, Name: c.Delta.Name, Images: len(c.Lock.Images), Token: c.Token, Slot: s.freeSlot(k.own(), at)}
	if _, err := k.bases(store, c.Delta, at); err != nil {
		return a, err
	}
	if len(k.own()) == 0 {
		return a, errors.Join(ErrUnread, k.Unreadable)
	}
	if store.Slot == "" {
		return a, fmt.Errorf("%w: all %d are taken", ErrNoSlot, len(k.own()))
	}
	if err := k.bring(ctx, &store, src, o); err != nil {
		return a, err
	}
	if c, err = k.believe(store); err != nil {
		return a, err
	}
	a.Store, a.Unchecked = store, len(src.signature) > 0 && !hasKeys(k.Keys)
	before := s.clone()
	s.SELinuxContext = k.SELinuxContext
	s.Stores = append(s.Stores, store)
	if !o.KeepSets {
		if err := k.leaveSets(s, c.Sets); err != nil {
			return a, err
		}
		s.take(Release{ID: store.ID, Store: store.ID, Name: store.Name, Sets: c.Sets}, k.KeepPrevious)
	}
	problem, err := k.confirm(ctx, s, store.ID)
	if problem != nil { // what cannot be mounted is not attached
		err = errors.Join(problem, before.write(k.Dir), k.sweep(&before))
	}
	return a, err
}

// believe reads what a store says of itself once more: what was read before its sum was
// known may not be what was copied.
func (k Manager) believe(o Store) (c content, err error) {
	image, e, err := k.open(o)
	if err != nil {
		return c, err
	}
	defer image.Close()
	if c, err = readContent(image); err == nil {
		err = c.stands(image)
	}
	if err == nil && c.Token != o.Token {
		err = ErrDamaged
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", e.Path, err)
	}
	return c, err
}

// bring copies the file of a store, or reads it where it stays.
func (k Manager) bring(ctx context.Context, store *Store, src source, o AttachOptions) error {
	keys, err := readKeys(k.Keys)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	c := copier{ctx: ctx, want: src.id, done: o.Done}
	if c.judge, err = newJudge(keys, src.signature); err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	if c.judge != nil && o.InPlace && src.medium { // nobody would check it at the next boot
		return fmt.Errorf("%s: %w", src.Path, ErrInPlace)
	}
	defer c.judge.stop()
	if store.Size = src.Size; o.InPlace {
		store.Place, store.Offset, store.Medium = src.Path, src.Offset, src.medium
		err = c.copy(nil, src.Extent)
	} else {
		err = k.copy(c, *store, src.Extent, o.Fits)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	return nil
}

// copy brings the file into the state's folder: whole and durable, or not at all.
func (k Manager) copy(c copier, store Store, src Extent, fits func(int64) error) error {
	if fits != nil {
		if err := fits(src.Size); err != nil {
			return err
		}
	}
	path := k.file(store)
	f, err := atomicfile.CreateVia(path+partSuffix, path, 0o600)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := c.copy(f, src); err != nil {
		return err
	}
	s, err := ReadState(k.Dir)
	if err == nil { // a file without a state would be one whose state is lost
		err = s.write(k.Dir)
	}
	if err != nil {
		return err
	}
	return f.Commit()
}

// confirm writes the state, and makes the node so. The problem is that of a store.
func (k Manager) confirm(ctx context.Context, s *State, id digest.Digest) (problem, err error) {
	if err := s.write(k.Dir); err != nil {
		return nil, err
	}
	problems, err := k.settle(ctx, s)
	return problems[id], err
}

// turn makes another release current.
func (k Manager) turn(ctx context.Context, s *State, r Release) error {
	if err := k.has(*s, r); err != nil {
		return err
	}
	if err := k.leaveSets(s, r.Sets); err != nil {
		return err
	}
	s.take(r, k.KeepPrevious)
	return errors.Join(k.confirm(ctx, s, r.Store))
}

// has says why a release cannot be made current: its sets would count some day, when
// its store comes back.
func (k Manager) has(s State, r Release) error {
	o := s.store(r.Store)
	if o == nil { // the appliance's own
		return nil
	}
	why, err := k.problem(*o)
	if why != nil {
		err = fmt.Errorf("the store %s: %w", o.title(), why)
	}
	return err
}

// leaveSets notes the sets of the release that is left, as they are now: somebody may
// have changed them since they came. So are files of his own that those of the release
// which comes are written over.
func (k Manager) leaveSets(s *State, come map[string]string) error {
	if len(s.Releases) == 0 { // the appliance's own sets came with no state
		c, _ := readSets(os.DirFS(k.Slots[0])) // a node without a store of its own has none
		s.Releases = []Release{{Sets: c}}
	}
	left := s.release(s.Current)
	if left == nil {
		return nil
	}
	names := slices.Collect(maps.Keys(left.Sets))
	s.Replaced = append(s.Replaced, names...)
	slices.Sort(s.Replaced)
	s.Replaced = slices.Compact(s.Replaced)
	if s.Switching { // the folder is not yet this release's
		return nil
	}
	sets := map[string]string{}
	for _, name := range slices.AppendSeq(names, maps.Keys(come)) {
		text, err := os.ReadFile(filepath.Join(k.Sets, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // he has removed it
		case err != nil:
			return err
		default:
			sets[name] = string(text)
		}
	}
	left.Sets = sets // a map of its own: what comes to nothing has the one before
	return nil
}

// ErrNoPrevious says that there is nothing to go back to.
var ErrNoPrevious = errors.New("there is no release before the current one")

// Rollback makes the release before the current one current.
func (k Manager) Rollback(ctx context.Context) (Release, error) {
	s, release, err := k.begin(ctx)
	if err != nil {
		return Release{}, err
	}
	defer release()
	previous := s.previous()
	if previous == nil {
		return Release{}, ErrNoPrevious
	}
	r := *previous
	if err := k.has(s, r); err != nil {
		return r, err
	}
	if err := k.leaveSets(&s, r.Sets); err != nil {
		return r, err
	}
	s.Current, s.Switching = r.ID, true
	return r, errors.Join(k.confirm(ctx, &s, r.Store))
}
