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

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/pinset"
)

// usage finds out what on the node needs a store: releases, sets, other stores, and the
// containers, images and layers of CRI-O's main store.
type usage struct {
	slots   slots
	sources sources
	wanted  func() ([]pinset.Image, error)
	// runRoots have records of the main store, too.
	runRoots []string
}

// maxBlockers is how many users of a store an error names.
const maxBlockers = 8

// check returns ErrInUse with the names of what needs a layer or an image that only this store
// has. graphRoots are those of CRI-O's main store.
func (u usage) check(s State, o Store, graphRoots []string) error {
	if current := s.release(s.Current); current != nil && current.Store == o.ID {
		return fmt.Errorf("%s: %w: its sets are current", o.Title(), ErrInUse)
	}
	mounted, err := mount.ReadTable()
	if err != nil {
		return err
	}
	r := newReferences()
	if r.main, err = u.readMain(graphRoots); err != nil {
		return err
	}
	if err := u.addOthers(&r, o, mounted); err != nil {
		return err
	}
	r.own, _ = u.sources.records(o) // nil if its file is missing
	wanted, err := u.wantedImages()
	if err != nil {
		return err
	}
	return inUse(o.Title(), slices.Concat(u.dependents(s, r, o), r.users(), r.neededBySets(wanted)))
}

// inUse is nil if nothing blocks the detach of a store, or of several.
func inUse(title string, blockers []string) error {
	slices.Sort(blockers)
	blockers = slices.Compact(blockers)
	if len(blockers) == 0 {
		return nil
	}
	more := ""
	if n := len(blockers) - maxBlockers; n > 0 {
		blockers, more = blockers[:maxBlockers], fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("%s: %w: by %s%s", title, ErrInUse, strings.Join(blockers, ", "), more)
}

// wantedImages returns the images that the sets ask for.
func (u usage) wantedImages() ([]pinset.Image, error) {
	images, err := u.wanted()
	if err != nil {
		return nil, fmt.Errorf("the images of the sets are unknown: %w", err)
	}
	return images, nil
}

// addOthers adds the records of all other stores.
func (u usage) addOthers(r *references, o Store, mounted mount.Table) error {
	for _, slot := range u.slots.mountedExcept(o, mounted) {
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
		// Another program may have given the layer another link name: see providers.
		other.layers = slices.DeleteFunc(other.layers, func(l record) bool { return !u.sameLink(o, root, l.ID) })
		r.addOther(other)
	}
	r.addImages(r.main.images)
	return nil
}

// sameLink reports whether a layer has the same link name in root as in a store.
func (u usage) sameLink(o Store, root, layer string) bool {
	name := filepath.Join("overlay", layer, "link")
	link, err := os.ReadFile(filepath.Join(u.slots.path(o), name))
	if errors.Is(err, fs.ErrNotExist) {
		if store, _, failed := u.sources.open(o); failed == nil {
			defer store.Close()
			link, err = fs.ReadFile(store, name)
		}
	}
	other, otherErr := os.ReadFile(filepath.Join(root, name))
	return err == nil && otherErr == nil && bytes.Equal(link, other)
}

// dependents lists the attached stores that need layers of this one.
func (u usage) dependents(s State, r references, o Store) (all []string) {
	for _, other := range s.Stores {
		if other.ID == o.ID || other.Removing {
			continue
		}
		delta, _, err := u.sources.readDelta(other)
		if err != nil {
			all = append(all, fmt.Sprintf("perhaps the store %s, whose file cannot be read", other.Title()))
		}
		if r.needed(delta) {
			all = append(all, "the store "+other.Title())
		}
	}
	return all
}

// checkReplaceable returns ErrInUse if something needs a layer or an image that the compacted
// store does not have. mounted are the mounts without the stores that it replaces.
func (u usage) checkReplaceable(s State, c Compaction, mounted mount.Table) error {
	records, err := u.sources.records(c.Store)
	if err != nil {
		return err
	}
	r := newReferences()
	r.addOther(*records)
	if r.main, err = u.readMain(c.GraphRoots); err != nil {
		return err
	}
	if err := u.addOthers(&r, c.Store, mounted); err != nil {
		return err
	}
	users := r.users() // r.own is nil: these are the users of layers and images in no store
	wanted, err := u.wantedImages()
	if err != nil {
		return err
	}
	replaced, dependents := u.leftOut(s, c, r)
	r.own = &replaced
	if users = slices.Concat(users, dependents, r.neededBySets(wanted)); len(users) > 0 {
		return fmt.Errorf("%w: the compacted store lacks something for %s", ErrInUse, users[0])
	}
	return nil
}

// leftOut collects the images of the stores that a compacted store replaces, and lists the other
// stores and the releases that need what it does not have. A store may have become a release since.
func (u usage) leftOut(s State, c Compaction, r references) (replaced records, dependents []string) {
	for _, o := range s.Stores {
		if slices.Contains(c.Replaces, o.ID) {
			if own, err := u.sources.records(o); err == nil { // the images of a missing store are not available now either
				replaced.images = append(replaced.images, own.images...)
				if s.hasRelease(o.ID) && !r.hasImages(own.images) {
					dependents = append(dependents, "the release "+o.Title())
				}
			}
			continue
		}
		if o.Removing {
			continue
		}
		delta, _, err := u.sources.readDelta(o)
		if err != nil {
			continue // it is not mounted now either
		}
		if r.needed(delta) {
			dependents = append(dependents, "the store "+o.Title())
		}
	}
	return replaced, dependents
}

// references are the records from which the users of a store are found.
type references struct {
	// own are the records of the store; nil if its file is missing.
	own *records
	// main are the records of CRI-O's main store.
	main records
	// others are the layers of the other stores. images are the IDs, and names the names, of the
	// images in the other stores and in CRI-O's main store.
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

// hasImages reports whether the other stores have all these images.
func (r references) hasImages(all []named) bool {
	return !slices.ContainsFunc(all, func(img named) bool { return !r.images[img.ID] })
}

// onlyHere reports whether a layer is in this store only. If the store's file is missing, that is
// any layer that is in no other store.
func (r references) onlyHere(layer string) bool {
	switch {
	case layer == "" || r.others[layer]:
		return false
	case r.own == nil:
		return !r.main.layer(layer)
	}
	return r.own.layer(layer)
}

// imageOnlyHere reports whether an image is in this store only.
func (r references) imageOnlyHere(id string) bool {
	if id == "" || r.images[id] {
		return false
	}
	return r.own == nil || slices.ContainsFunc(r.own.images, func(img named) bool { return img.ID == id })
}

// needed reports whether a delta needs a layer that is in this store only.
func (r references) needed(delta pinset.Delta) bool {
	return slices.ContainsFunc(delta.Needs, func(n pinset.Need) bool { return r.onlyHere(n.Layer) })
}

// users lists the images, containers and other layers of CRI-O's main store that need this store.
func (r references) users() (all []string) {
	for _, img := range r.main.images {
		if r.onlyHere(img.Layer) {
			all = append(all, "the image "+img.title()+" of CRI-O's main store")
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
			all = append(all, "the image "+r.main.images[i].title()+" of CRI-O's main store")
		} else {
			all = append(all, "the layer "+l.ID[:min(12, len(l.ID))]+" of CRI-O's main store")
		}
	}
	return all
}

// neededBySets lists the images of sets that only this store has.
func (r references) neededBySets(images []pinset.Image) (all []string) {
	if r.own == nil {
		return nil // they are not available now either
	}
	mine := map[string]bool{}
	for _, img := range r.own.images {
		for _, name := range img.Names {
			mine[name] = true
		}
	}
	for _, img := range images {
		if name := img.String(); mine[name] && !r.names[name] {
			all = append(all, "the sets ("+name+")")
		}
	}
	return all
}
