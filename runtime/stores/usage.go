package stores

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// usage finds out what on the node needs a store: releases, sets, other stores, and the
// containers, images and layers of CRI-O's own store.
type usage struct {
	slots   slots
	sources sources
	wanted  func() ([]pinset.Image, error)
}

// maxBlockers is how many of those who use a store are named.
const maxBlockers = 8

// check returns ErrInUse with the names of what refers to a store and could not be served by
// another. root is that of CRI-O's own store.
func (u usage) check(s State, o Store, root string) error {
	if current := s.release(s.Current); current != nil && current.Store == o.ID {
		return fmt.Errorf("%s: %w: its sets are current", o.title(), ErrInUse)
	}
	mounted, err := readMountTable()
	if err != nil {
		return err
	}
	r := newReferences()
	if r.main, err = readMain(root); err != nil {
		return err
	}
	if err := u.addOthers(&r, o, mounted); err != nil {
		return err
	}
	r.own, _ = u.sources.records(o) // nil, if its file is lost
	asked, err := u.asked()
	if err != nil {
		return err
	}
	return inUse(o, slices.Concat(u.dependents(s, r, o), r.users(), r.wantedBy(asked)))
}

// inUse is nil if nothing blocks the detach of a store.
func inUse(o Store, blockers []string) error {
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
func (u usage) asked() ([]pinset.Image, error) {
	images, err := u.wanted()
	if err != nil {
		return nil, fmt.Errorf("the sets cannot be read, so nobody knows what they ask for: %w", err)
	}
	return images, nil
}

// addOthers reads the records of all other stores.
func (u usage) addOthers(r *references, o Store, mounted mountTable) error {
	for _, slot := range u.slots.mountedBeside(o, mounted) {
		other, err := readRecords(os.DirFS(slot))
		if err != nil {
			return fmt.Errorf("%s: %w", slot, err)
		}
		r.addOther(other)
	}
	for _, root := range u.slots.others {
		other, err := readRecords(os.DirFS(root))
		if err != nil {
			return fmt.Errorf("%s: %w", root, err)
		}
		// A layer refers to its parents by their links. Another program gives them other links.
		other.layers = slices.DeleteFunc(other.layers, func(l record) bool { return !u.sameLink(o, root, l.ID) })
		r.addOther(other)
	}
	r.addImages(r.main.images)
	return nil
}

// sameLink says whether a folder has a layer under the same link as a store.
func (u usage) sameLink(o Store, root, layer string) bool {
	name := filepath.Join("overlay", layer, "link")
	link, err := os.ReadFile(filepath.Join(u.slots.path(o), name))
	if errors.Is(err, fs.ErrNotExist) {
		if image, _, failed := u.sources.open(o); failed == nil {
			defer image.Close()
			link, err = fs.ReadFile(image, name)
		}
	}
	there, thereErr := os.ReadFile(filepath.Join(root, name))
	return err == nil && thereErr == nil && bytes.Equal(link, there)
}

// dependents are the attached stores that need layers of this one.
func (u usage) dependents(s State, r references, o Store) (all []string) {
	for _, other := range s.Stores {
		if other.ID == o.ID || other.Removing {
			continue
		}
		delta, _, err := u.sources.describe(other)
		if err != nil {
			all = append(all, fmt.Sprintf("the store %s, perhaps, whose own file is lost", other.title()))
		}
		if r.needed(delta) {
			all = append(all, "the store "+other.title())
		}
	}
	return all
}

// checkReplaceable returns ErrInUse if something needs a layer or an image that the compacted
// store leaves out. mounted are the mounts without the stores that it replaces.
func (u usage) checkReplaceable(s State, c Compaction, mounted mountTable) error {
	records, err := u.sources.records(c.Store)
	if err != nil {
		return err
	}
	r := newReferences()
	r.addOther(*records)
	if r.main, err = readMain(c.GraphRoot); err != nil {
		return err
	}
	if err := u.addOthers(&r, c.Store, mounted); err != nil {
		return err
	}
	users := r.users() // r.own is nil, so that this is whatever needs what is nowhere
	asked, err := u.asked()
	if err != nil {
		return err
	}
	replaced, dependents := u.leftOut(s, c, r)
	r.own = &replaced
	if users = slices.Concat(users, dependents, r.wantedBy(asked)); len(users) > 0 {
		return fmt.Errorf("%w: what it leaves out is wanted by %s", ErrInUse, users[0])
	}
	return nil
}

// leftOut collects the images of the stores that a compacted store replaces, and the other
// stores that need a layer which it leaves out.
func (u usage) leftOut(s State, c Compaction, r references) (replaced records, dependents []string) {
	for _, o := range s.Stores {
		if slices.Contains(c.Replaces, o.ID) {
			if own, err := u.sources.records(o); err == nil { // of one that is lost nothing is wanted
				replaced.images = append(replaced.images, own.images...)
			}
			continue
		}
		if o.Removing {
			continue
		}
		delta, _, err := u.sources.describe(o)
		if err != nil {
			continue // it is not mounted now, and its own status says why
		}
		if r.needed(delta) {
			dependents = append(dependents, "the store "+o.title())
		}
	}
	return replaced, dependents
}

// references tell who needs a store.
type references struct {
	// own are the records of the store; nil if its file is lost.
	own *records
	// main are the records of CRI-O's own store.
	main records
	// others are the layers of the other stores, images the IDs of their images and of those in
	// CRI-O's own store, and names the names of these images.
	others, images, names map[string]bool
}

func newReferences() references {
	return references{others: map[string]bool{}, images: map[string]bool{}, names: map[string]bool{}}
}

func (r references) addImages(all []named) {
	for _, img := range all {
		r.images[img.ID] = true
		for _, name := range img.Names {
			r.names[name] = true
		}
	}
}

func (r references) addOther(other records) {
	for _, l := range other.layers {
		r.others[l.ID] = true
	}
	r.addImages(other.images)
}

// onlyHere says whether a layer is in this store only. If the store's file is lost, that is
// every layer that is nowhere else.
func (r references) onlyHere(layer string) bool {
	switch {
	case layer == "" || r.others[layer]:
		return false
	case r.own == nil:
		return !r.main.layer(layer)
	}
	return r.own.layer(layer)
}

// imageOnlyHere says whether an image is in this store only.
func (r references) imageOnlyHere(id string) bool {
	if id == "" || r.images[id] {
		return false
	}
	return r.own == nil || slices.ContainsFunc(r.own.images, func(img named) bool { return img.ID == id })
}

// needed says whether a delta needs a layer that is in this store only.
func (r references) needed(delta pinset.Delta) bool {
	return slices.ContainsFunc(delta.Needs, func(n pinset.Need) bool { return r.onlyHere(n.Layer) })
}

// users are those in CRI-O's own store: containers, images that were pulled, and layers of
// neither.
func (r references) users() (all []string) {
	for _, img := range r.main.images {
		if r.onlyHere(img.Layer) {
			all = append(all, "the image "+img.title()+" of CRI-O's own store")
		}
	}
	for _, c := range r.main.containers {
		if r.imageOnlyHere(c.Image) {
			all = append(all, "the container "+c.title())
		}
	}
	for _, l := range r.main.layers {
		if !r.onlyHere(l.Parent) {
			continue
		}
		is := func(n named) bool { return n.Layer == l.ID }
		if i := slices.IndexFunc(r.main.containers, is); i >= 0 {
			all = append(all, "the container "+r.main.containers[i].title())
		} else if i := slices.IndexFunc(r.main.images, is); i >= 0 {
			all = append(all, "the image "+r.main.images[i].title()+" of CRI-O's own store")
		} else {
			all = append(all, "the layer "+l.ID[:min(12, len(l.ID))]+" of CRI-O's own store")
		}
	}
	return all
}

// wantedBy are the images of sets that no other store has.
func (r references) wantedBy(images []pinset.Image) (all []string) {
	if r.own == nil {
		return nil // they are not there now
	}
	mine := map[string]bool{}
	for _, img := range r.own.images {
		for _, name := range img.Names {
			mine[name] = true
		}
	}
	for _, img := range images {
		if name := img.String(); mine[name] && !r.names[name] {
			all = append(all, "the sets, which ask for "+name)
		}
	}
	return all
}
