package stores

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// CompactPlan is what goes into a compacted store.
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

	// members are those of the stores that were attached, roots where all of them are mounted.
	members []Store
	roots   []string
}

// planCompaction decides what is compacted, and what of it is kept.
func (s *session) planCompaction(o CompactOptions) (p CompactPlan, err error) {
	if err := s.chooseStores(&p, o.All); err != nil {
		return p, err
	}
	k, err := newKeeping(p.roots)
	if err != nil {
		return p, err
	}
	if err := s.keepReleases(&p, k); err != nil {
		return p, err
	}
	if err := s.keepWanted(&p, k); err != nil {
		return p, err
	}
	main, err := readMain(o.Root)
	if err != nil {
		return p, err
	}
	k.keepUsed(main)
	p.Images, p.Layers = k.images, k.layers
	return p, nil
}

// chooseStores chooses the stores that are compacted: those that are mounted, and the
// appliance's own if all are.
func (s *session) chooseStores(p *CompactPlan, all bool) error {
	mounted, err := readMountTable()
	if err != nil {
		return err
	}
	if all {
		device, err := deviceAt(s.slots.all[0])
		if err != nil {
			return err
		}
		p.Stores, p.roots = append(p.Stores, device), append(p.roots, s.slots.all[0])
	}
	for _, o := range s.state.Stores {
		e, err := s.sources.extent(o)
		if err == nil && s.mounts.problem(o, mounted) == nil {
			p.members = append(p.members, o)
			p.Stores, p.roots = append(p.Stores, e), append(p.roots, s.slots.path(o))
		}
	}
	if len(p.Stores) < 2 || len(p.members) == 0 {
		return fmt.Errorf("%w: %d are attached", ErrNothing, len(p.members))
	}
	return nil
}

// keepReleases keeps the images of all releases whose stores are compacted, and makes one lock
// of theirs. The platform and the sets are those of the newest.
func (s *session) keepReleases(p *CompactPlan, k *keeping) error {
	for _, r := range slices.Backward(s.state.Releases) {
		i := slices.IndexFunc(p.members, func(o Store) bool { return o.ID == r.Store })
		if i < 0 {
			continue
		}
		c, err := readContent(os.DirFS(s.slots.path(p.members[i])))
		if err != nil {
			return err
		}
		if p.Lock.Version == 0 {
			p.Lock = pinset.Lock{Version: c.Lock.Version, Platform: c.Lock.Platform, Sets: c.Lock.Sets}
			p.Sets, p.Name = c.Sets, p.members[i].Name
		}
		for _, img := range c.Lock.Images {
			p.keep(img, k)
		}
	}
	if p.Lock.Version == 0 {
		return fmt.Errorf("%w: no release has its store here", ErrNothing)
	}
	return nil
}

// keepWanted keeps the images of the stores that sets ask for.
func (s *session) keepWanted(p *CompactPlan, k *keeping) error {
	asked, err := s.usage.asked()
	if err != nil {
		return err
	}
	for _, o := range p.members {
		lock, err := readLock(filepath.Join(s.slots.path(o), layout.OwnLock))
		if err != nil {
			return err
		}
		for _, img := range lock.Images {
			if slices.ContainsFunc(asked, func(a pinset.Image) bool { return a.String() == img.Pin }) {
				p.keep(img, k)
			}
		}
	}
	return nil
}

// keep keeps an image and adds it to the lock.
func (p *CompactPlan) keep(img pinset.LockedImage, k *keeping) {
	if !slices.ContainsFunc(p.Lock.Images, func(there pinset.LockedImage) bool { return there.Pin == img.Pin }) {
		p.Lock.Images = append(p.Lock.Images, img)
	}
	k.keepImage(img.Config.Encoded())
}

// keeping collects what is kept of stores.
type keeping struct {
	images, layers map[string]bool
	// parents of the stores' layers, and top layers of their images.
	parents, tops map[string]string
}

// newKeeping reads the records of the stores that are compacted. Nothing of them is kept yet.
func newKeeping(roots []string) (*keeping, error) {
	k := &keeping{images: map[string]bool{}, layers: map[string]bool{}, parents: map[string]string{}, tops: map[string]string{}}
	for _, root := range roots {
		records, err := readRecords(os.DirFS(root))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root, err)
		}
		for _, l := range records.layers {
			k.parents[l.ID] = l.Parent
		}
		for _, img := range records.images {
			k.tops[img.ID] = img.Layer
		}
	}
	return k, nil
}

// keepUsed keeps what CRI-O's own store refers to.
func (k *keeping) keepUsed(main records) {
	for _, l := range main.layers {
		k.keepLayer(l.Parent)
	}
	for _, img := range main.images {
		k.keepLayer(img.Layer)
	}
	for _, c := range main.containers {
		k.keepImage(c.Image)
	}
}

func (k *keeping) keepImage(id string) {
	if top, ok := k.tops[id]; ok {
		k.images[id] = true
		k.keepLayer(top)
	}
}

// keepLayer keeps a layer, and those below it, of the stores that are compacted.
func (k *keeping) keepLayer(layer string) {
	for {
		parent, ok := k.parents[layer]
		if !ok || k.layers[layer] {
			return
		}
		k.layers[layer], layer = true, parent
	}
}
