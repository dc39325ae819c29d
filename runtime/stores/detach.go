package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrInUse says what keeps a store from being detached.
var ErrInUse = errors.New("the store is in use")

// Detach takes a store away: by its slot, its name, or the beginning of its digest.
// The kernel would let go of one that is in use, so that images and containers break
// later: what refers to it is looked for, and named. root is that of CRI-O's own store.
func (k Manager) Detach(ctx context.Context, name, root string) (Store, error) {
	s, release, err := k.begin(ctx)
	if err != nil {
		return Store{}, err
	}
	defer release()
	o, err := s.find(name)
	if err != nil {
		return Store{}, err
	}
	return o, k.detach(ctx, &s, o, root)
}

// DetachUnused takes all stores away to which nothing refers, but for those of
// releases that `rollback` may want. It gives what keeps the others.
func (k Manager) DetachUnused(ctx context.Context, root string) (gone []Store, kept map[string]error, err error) {
	s, release, err := k.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	kept = map[string]error{}
	for _, o := range slices.Backward(slices.Clone(s.Stores)) { // what came later stands on what came before
		if s.wanted(o) {
			kept[o.title()] = fmt.Errorf("%w: rollback may want it", ErrInUse)
			continue
		}
		switch err := k.detach(ctx, &s, o, root); {
		case errors.Is(err, ErrInUse):
			kept[o.title()] = err
		case err != nil:
			return gone, kept, err
		default:
			gone = append(gone, o)
		}
	}
	return gone, kept, nil
}

// wanted says that a rollback would want a store.
func (s State) wanted(o Store) bool {
	current := slices.IndexFunc(s.Releases, func(r Release) bool { return r.ID == s.Current })
	return slices.ContainsFunc(s.Releases[:max(0, current)], func(r Release) bool { return r.Store == o.ID })
}

func (k Manager) detach(ctx context.Context, s *State, o Store, root string) error {
	if err := k.unreferred(*s, o, root); err != nil {
		return err
	}
	s.store(o.ID).Leaving = root
	if err := s.write(k.Dir); err != nil {
		return err
	}
	problems, err := k.settle(ctx, s)
	there := s.store(o.ID)
	if err != nil || there == nil {
		return err
	}
	// It could not be taken away, or somebody has begun to use it.
	if err := errors.Join(problems[o.ID], k.unreferred(*s, *there, root)); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w: it was, for a moment", o.title(), ErrInUse)
}

// leave goes on with a store that is being detached: it is taken away first and then
// looked at again, since CRI-O does not wait for us.
func (k Manager) leave(ctx context.Context, s *State, o Store) error {
	why := k.unreferred(*s, o, o.Leaving) // it may be long since it was looked at
	if why == nil {
		if err := unmountAll(ctx, k.Mounter, k.slot(o)); err != nil {
			return err
		}
		why = k.unreferred(*s, o, o.Leaving)
	}
	if why != nil { // or nobody can tell: it comes back
		s.store(o.ID).Leaving = ""
		return s.write(k.Dir)
	}
	s.store(o.ID).Gone = true
	if err := s.write(k.Dir); err != nil {
		return err
	}
	return k.remove(ctx, s, o)
}

// remove takes away what is left of a store to which nothing refers.
func (k Manager) remove(ctx context.Context, s *State, o Store) error {
	if err := unmountAll(ctx, k.Mounter, k.slot(o)); err != nil {
		return err
	}
	if err := os.Remove(k.file(o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.drop(o.ID)
	return s.write(k.Dir)
}

// unreferred says what refers to a store that nothing else on the node could stand
// for.
func (k Manager) unreferred(s State, o Store, root string) error {
	if current := s.release(s.Current); current != nil && current.Store == o.ID {
		return fmt.Errorf("%s: %w: its sets are current", o.title(), ErrInUse)
	}
	at, err := mounts()
	if err != nil {
		return err
	}
	v := view{others: map[string]bool{}, images: map[string]bool{}, names: map[string]bool{}}
	if v.main, err = readMain(root); err != nil {
		return err
	}
	if err := k.others(&v, o, at); err != nil {
		return err
	}
	v.own, _ = k.recordsOf(o) // of one that is lost, nothing is known
	blockers := append(k.later(s, v, o), v.users()...)
	asked, err := k.asked()
	if err != nil {
		return err
	}
	blockers = append(blockers, v.wanted(asked)...)
	slices.Sort(blockers)
	blockers = slices.Compact(blockers)
	if len(blockers) == 0 {
		return nil
	}
	more := ""
	if n := len(blockers) - maxBlockers; n > 0 {
		blockers, more = blockers[:maxBlockers], fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("%s: %w: by %s%s", o.title(), ErrInUse, strings.Join(blockers, ", "), more)
}

// asked are the images that the sets ask for.
func (k Manager) asked() ([]pinset.Image, error) {
	images, err := k.Wanted()
	if err != nil {
		return nil, fmt.Errorf("the sets cannot be read, so nobody knows what they ask for: %w", err)
	}
	return images, nil
}

// maxBlockers is how many of those who use a store are named.
const maxBlockers = 8

// view is what a store is looked at with, to find out who needs it.
type view struct {
	// own records; nil if its file is lost.
	own *records
	// main has the records of CRI-O's own store.
	main records
	// others are the layers of the other stores, images the IDs of theirs and of CRI-O's
	// own, and names their names.
	others, images, names map[string]bool
}

func (v view) addImages(all []named) {
	for _, img := range all {
		v.images[img.ID] = true
		for _, name := range img.Names {
			v.names[name] = true
		}
	}
}

func (v view) addOther(r records) {
	for _, l := range r.layers {
		v.others[l.ID] = true
	}
	v.addImages(r.images)
}

// alone says whether a layer is in this store only. Of a store whose file is lost,
// all counts that is nowhere.
func (v view) alone(layer string) bool {
	switch {
	case layer == "" || v.others[layer]:
		return false
	case v.own == nil:
		return !v.main.layer(layer)
	}
	return v.own.layer(layer)
}

// aloneImage says that of an image.
func (v view) aloneImage(id string) bool {
	if id == "" || v.images[id] {
		return false
	}
	return v.own == nil || slices.ContainsFunc(v.own.images, func(img named) bool { return img.ID == id })
}

// users are those in CRI-O's own store: containers, images that were pulled, and
// layers that are neither's.
func (v view) users() (all []string) {
	for _, img := range v.main.images {
		if v.alone(img.Layer) {
			all = append(all, "the image "+img.title()+" of CRI-O's own store")
		}
	}
	for _, c := range v.main.containers {
		if v.aloneImage(c.Image) {
			all = append(all, "the container "+c.title())
		}
	}
	for _, l := range v.main.layers {
		if !v.alone(l.Parent) {
			continue
		}
		is := func(n named) bool { return n.Layer == l.ID }
		if i := slices.IndexFunc(v.main.containers, is); i >= 0 {
			all = append(all, "the container "+v.main.containers[i].title())
		} else if i := slices.IndexFunc(v.main.images, is); i >= 0 {
			all = append(all, "the image "+v.main.images[i].title()+" of CRI-O's own store")
		} else {
			all = append(all, "the layer "+l.ID[:min(12, len(l.ID))]+" of CRI-O's own store")
		}
	}
	return all
}

// wanted are the images of sets that no other store has.
func (v view) wanted(images []pinset.Image) (all []string) {
	if v.own == nil {
		return nil // they are not there now
	}
	mine := map[string]bool{}
	for _, img := range v.own.images {
		for _, name := range img.Names {
			mine[name] = true
		}
	}
	for _, img := range images {
		if name := img.String(); mine[name] && !v.names[name] {
			all = append(all, "the sets, which ask for "+name)
		}
	}
	return all
}

// others reads the records of all other stores.
func (k Manager) others(v *view, o Store, at map[string]int) error {
	for _, slot := range k.Slots {
		if at[slot] == 0 || slot == k.slot(o) {
			continue
		}
		r, err := readRecords(os.DirFS(slot))
		if err != nil {
			return fmt.Errorf("%s: %w", slot, err)
		}
		v.addOther(r)
	}
	for _, root := range k.Others {
		r, err := readRecords(os.DirFS(root))
		if err != nil {
			return fmt.Errorf("%s: %w", root, err)
		}
		// What stands on a layer names it by its link: one that another program has
		// written has others.
		r.layers = slices.DeleteFunc(r.layers, func(l record) bool { return !k.linked(o, root, l.ID) })
		v.addOther(r)
	}
	v.addImages(v.main.images)
	return nil
}

// linked says whether a folder has a layer under the link that a store has it under.
func (k Manager) linked(o Store, root, layer string) bool {
	name := filepath.Join("overlay", layer, "link")
	link, err := os.ReadFile(filepath.Join(k.slot(o), name))
	if errors.Is(err, fs.ErrNotExist) {
		if image, _, failed := k.open(o); failed == nil {
			defer image.Close()
			link, err = fs.ReadFile(image, name)
		}
	}
	there, thereErr := os.ReadFile(filepath.Join(root, name))
	return err == nil && thereErr == nil && bytes.Equal(link, there)
}

// recordsOf a store, mounted or not.
func (k Manager) recordsOf(o Store) (*records, error) {
	image, _, err := k.open(o)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	r, err := readRecords(image)
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// later are the stores that stand on this one.
func (k Manager) later(s State, v view, o Store) (all []string) {
	for _, other := range s.Stores {
		if other.ID == o.ID || other.Gone {
			continue
		}
		delta, _, err := k.look(other)
		if err != nil {
			all = append(all, fmt.Sprintf("the store %s, perhaps, whose own file is lost", other.title()))
		}
		if slices.ContainsFunc(delta.Needs, func(n pinset.Need) bool { return v.alone(n.Layer) }) {
			all = append(all, "the store "+other.title())
		}
	}
	return all
}
