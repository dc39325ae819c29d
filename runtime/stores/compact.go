package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What stands against compaction.
var (
	ErrNothing     = errors.New("there are no two stores to compact")
	ErrNotReplaced = errors.New("the compacted store cannot take the place of the others")
)

// CompactOptions say how stores are compacted.
type CompactOptions struct {
	// All compacts the appliance's own store too, which stays where it is all the same.
	All bool
	// Root of CRI-O's own store.
	Root string
	// Write writes the stores as one.
	Write func(ctx context.Context, out io.Writer, f CompactPlan) error
	// Fits says why there is no room for so many bytes.
	Fits func(bytes int64) error
}

// CompactPlan is what goes into the store that is made of others.
type CompactPlan struct {
	// Stores that are compacted, oldest first.
	Stores []Extent
	// Images and Layers that are kept, by their IDs.
	Images, Layers map[string]bool
	// Lock and Sets of the current release. The lock has the images of the releases
	// before it too, if they are kept.
	Lock pinset.Lock
	Sets map[string]string
	Name string
}

// Compact writes the stores that were attached as one, without what nothing refers to
// any more. It takes their place when CRI-O starts next. While it writes, others may
// attach, detach and roll back: whether it can take their place is found out then.
func (k Manager) Compact(ctx context.Context, o CompactOptions) (f Compaction, err error) {
	end, err := k.lockFile(ctx, compactLock)
	if err != nil {
		return f, err
	}
	defer end()
	s, compaction, members, err := k.plan(ctx, o)
	if err != nil || s.Compaction != nil {
		if s.Compaction != nil {
			f = *s.Compaction
		}
		return f, err
	}
	var bytes int64
	for _, m := range members {
		f.Replaces = append(f.Replaces, m.ID)
		bytes += m.Size
	}
	if o.Fits != nil {
		if err := o.Fits(bytes); err != nil {
			return f, err
		}
	}
	if f.Store, err = k.write(ctx, o, compaction); err != nil {
		return f, fmt.Errorf("compact %d stores: %w", len(compaction.Stores), err)
	}
	// One of them may have all that is kept already.
	f.Replaces = slices.DeleteFunc(f.Replaces, func(id digest.Digest) bool { return id == f.Store.ID })
	f.Root = o.Root
	return f, k.record(ctx, f)
}

// compactLock is held by who writes a compacted store, which may take long.
const compactLock = ".compact.lock"

// plan looks at what there is to compact.
func (k Manager) plan(ctx context.Context, o CompactOptions) (s State, f CompactPlan, members []Store, err error) {
	s, release, err := k.begin(ctx)
	if err != nil {
		return s, f, nil, err
	}
	defer release()
	if s.Compaction != nil {
		return s, f, nil, nil
	}
	f, members, err = k.compaction(s, o)
	return s, f, members, err
}

// record gives the compacted store its name, and has it take its place some day.
func (k Manager) record(ctx context.Context, f Compaction) error {
	s, release, err := k.begin(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := os.Rename(k.compacted(), k.file(f.Store)); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(k.Dir); err != nil {
		return err
	}
	s.Compaction = &f
	return s.write(k.Dir)
}

// compacted is the name of a compacted store until its digest is known.
func (k Manager) compacted() string { return filepath.Join(k.Dir, "compacted"+fileSuffix) }

// compaction decides what is kept.
func (k Manager) compaction(s State, o CompactOptions) (f CompactPlan, members []Store, err error) {
	at, err := mounts()
	if err != nil {
		return f, nil, err
	}
	var roots []string
	if o.All {
		device, err := deviceAt(k.Slots[0])
		if err != nil {
			return f, nil, err
		}
		f.Stores, roots = append(f.Stores, device), append(roots, k.Slots[0])
	}
	for _, m := range s.Stores {
		e, err := k.extent(m)
		if err == nil && k.amiss(m, at) == nil {
			members = append(members, m)
			f.Stores, roots = append(f.Stores, e), append(roots, k.slot(m))
		}
	}
	if len(f.Stores) < 2 || len(members) == 0 {
		return f, nil, fmt.Errorf("%w: %d are attached", ErrNothing, len(members))
	}
	r := keeping{images: map[string]bool{}, layers: map[string]bool{}, parents: map[string]string{}, tops: map[string]string{}}
	for _, root := range roots {
		if err := r.add(root); err != nil {
			return f, nil, err
		}
	}
	if err := f.locks(k, s, members, &r); err != nil {
		return f, nil, err
	}
	main, err := readMain(o.Root)
	if err != nil {
		return f, nil, err
	}
	for _, l := range main.layers {
		r.keep(l.Parent)
	}
	for _, img := range main.images {
		r.keep(img.Layer)
	}
	for _, c := range main.containers {
		r.image(c.Image)
	}
	f.Images, f.Layers = r.images, r.layers
	return f, members, nil
}

// locks keeps the images of all releases whose stores are compacted, and what sets ask
// for beside those, and makes one lock of theirs.
func (f *CompactPlan) locks(k Manager, s State, members []Store, r *keeping) error {
	have := map[string]bool{}
	keep := func(img pinset.LockedImage) {
		if !have[img.Pin] {
			have[img.Pin] = true
			f.Lock.Images = append(f.Lock.Images, img)
		}
		r.image(img.Config.Encoded())
	}
	for _, rel := range slices.Backward(s.Releases) { // the newest platform and sets count
		i := slices.IndexFunc(members, func(m Store) bool { return m.ID == rel.Store })
		if i < 0 {
			continue
		}
		c, err := readContent(os.DirFS(k.slot(members[i])))
		if err != nil {
			return err
		}
		if f.Lock.Version == 0 {
			f.Lock = pinset.Lock{Version: c.Lock.Version, Platform: c.Lock.Platform, Sets: c.Lock.Sets}
			f.Sets, f.Name = c.Sets, members[i].Name
		}
		for _, img := range c.Lock.Images {
			keep(img)
		}
	}
	if f.Lock.Version == 0 {
		return fmt.Errorf("%w: no release has its store here", ErrNothing)
	}
	asked, err := k.asked()
	if err != nil {
		return err
	}
	for _, m := range members {
		lock, err := readLock(filepath.Join(k.slot(m), lockPath))
		if err != nil {
			return err
		}
		for _, img := range lock.Images {
			if slices.ContainsFunc(asked, func(a pinset.Image) bool { return a.String() == img.Pin }) {
				keep(img)
			}
		}
	}
	return nil
}

// keeping collects what is kept of stores.
type keeping struct {
	images, layers map[string]bool
	parents, tops  map[string]string
}

func (r *keeping) add(root string) error {
	records, err := readRecords(os.DirFS(root))
	if err != nil {
		return fmt.Errorf("%s: %w", root, err)
	}
	for _, l := range records.layers {
		r.parents[l.ID] = l.Parent
	}
	for _, img := range records.images {
		r.tops[img.ID] = img.Layer
	}
	return nil
}

func (r *keeping) image(id string) {
	if top, ok := r.tops[id]; ok {
		r.images[id] = true
		r.keep(top)
	}
}

// keep keeps a layer, and those below it, of the stores that are compacted.
func (r *keeping) keep(layer string) {
	for {
		parent, ok := r.parents[layer]
		if !ok || r.layers[layer] {
			return
		}
		r.layers[layer], layer = true, parent
	}
}

// write writes the compacted store into the state's folder.
func (k Manager) write(ctx context.Context, o CompactOptions, f CompactPlan) (Store, error) {
	path := k.compacted()
	out, err := atomicfile.CreateVia(path+partSuffix, path, 0o600)
	if err != nil {
		return Store{}, err
	}
	defer out.Abort()
	sum := digest.SHA256.Digester()
	size := &counter{}
	if err := o.Write(ctx, io.MultiWriter(out, sum.Hash(), size), f); err != nil {
		return Store{}, err
	}
	if err := out.Commit(); err != nil {
		return Store{}, err
	}
	c, err := k.reread(ctx, path, size.n, sum.Digest())
	if err != nil {
		return Store{}, err
	}
	return Store{ID: sum.Digest(), Name: f.Name, Size: size.n, Images: len(f.Images), Token: c.Token}, nil
}

// reread reads what was written from the disk itself: it will be the only copy.
func (k Manager) reread(ctx context.Context, path string, size int64, want digest.Digest) (content, error) {
	if err := forget(path); err != nil {
		return content{}, err
	}
	whole := Extent{Path: path, Size: size}
	if err := (copier{ctx: ctx, want: want}).copy(nil, whole); err != nil {
		return content{}, err
	}
	image, err := k.Open(whole)
	if err != nil {
		return content{}, err
	}
	defer image.Close()
	return readContent(image)
}

// forget has the kernel forget what it holds of a file.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// replaceByCompacted puts the compacted store in the place of the others. What has come
// since they were compacted may stand on what was left out: then they stay.
func (k Manager) replaceByCompacted(ctx context.Context, s *State) error {
	f := s.Compaction
	after := s.clone()
	after.Compaction = nil
	at, err := mounts()
	if err != nil {
		return err
	}
	why := k.replaceable(*s, *f, at)
	if why == nil { // the files of the others go before it is mounted in a slot
		why = k.try(ctx, f.Store)
	}
	if err := ctx.Err(); err != nil { // which says nothing against it
		return err
	}
	if why != nil {
		if err := after.write(k.Dir); err != nil {
			return err
		}
		*s = after
		return fmt.Errorf("%w: %w", ErrNotReplaced, why)
	}
	if s.store(f.Store.ID) == nil {
		if f.Store.Slot = s.freeSlot(k.own(), at); f.Store.Slot == "" {
			f.Store.Slot = s.store(f.Replaces[0]).Slot
		}
		after.Stores = append(after.Stores, f.Store)
	}
	for i := range after.Stores {
		if slices.Contains(f.Replaces, after.Stores[i].ID) {
			after.Stores[i].Gone = true
		}
	}
	for i := range after.Releases {
		if slices.Contains(f.Replaces, after.Releases[i].Store) {
			after.Releases[i].Store = f.Store.ID
		}
	}
	if err := after.write(k.Dir); err != nil {
		return err
	}
	*s = after
	return nil
}

// trial is a mount point beside the slots.
func (k Manager) trial() string { return filepath.Join(k.Dir, "trial") }

// try has the kernel mount a store where CRI-O does not look.
func (k Manager) try(ctx context.Context, o Store) error {
	e, err := k.extent(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(k.trial(), 0o700); err != nil {
		return err
	}
	err = k.Mounter.Mount(ctx, Mount{What: e.Path, Where: k.trial(), Options: k.options(e), About: o.title()})
	if err == nil {
		err = readable(os.DirFS(k.trial()))
	}
	return errors.Join(err, k.endTrial(ctx))
}

// endTrial takes away what a trial has left.
func (k Manager) endTrial(ctx context.Context) error {
	if err := unmountAll(ctx, k.Mounter, k.trial()); err != nil {
		return err
	}
	if err := os.Remove(k.trial()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replaceable says why a compacted store cannot stand for those that it was made of.
func (k Manager) replaceable(s State, f Compaction, at map[string]int) error {
	for _, id := range f.Replaces {
		m := s.store(id)
		if m == nil {
			return fmt.Errorf("%w: %s was detached since", ErrNoStore, Short(id))
		}
		at[k.slot(*m)] = 0
	}
	if _, err := k.prepare(f.Store, at); err != nil {
		return err
	}
	records, err := k.recordsOf(f.Store)
	if err != nil {
		return err
	}
	v := view{others: map[string]bool{}, images: map[string]bool{}, names: map[string]bool{}}
	v.addOther(*records)
	return k.leftOut(s, f, at, v)
}

// leftOut finds what stands on a layer, or is of an image, that is nowhere else.
func (k Manager) leftOut(s State, f Compaction, at map[string]int, v view) (err error) {
	if v.main, err = readMain(f.Root); err != nil {
		return err
	}
	if err := k.others(&v, f.Store, at); err != nil {
		return err
	}
	users := v.users() // without records of its own, all counts that is nowhere
	asked, err := k.asked()
	if err != nil {
		return err
	}
	var replaced records
	for _, o := range s.Stores {
		if slices.Contains(f.Replaces, o.ID) {
			if r, err := k.recordsOf(o); err == nil { // of one that is lost nothing is wanted
				replaced.images = append(replaced.images, r.images...)
			}
			continue
		}
		if o.Gone {
			continue
		}
		delta, _, err := k.look(o)
		if err != nil {
			continue // it is not mounted now, and will say what it lacks
		}
		if slices.ContainsFunc(delta.Needs, func(n pinset.Need) bool { return v.alone(n.Layer) }) {
			users = append(users, "the store "+o.title())
		}
	}
	v.own = &replaced
	if users = append(users, v.wanted(asked)...); len(users) > 0 {
		return fmt.Errorf("%w: what it leaves out is wanted by %s", ErrInUse, users[0])
	}
	return nil
}
