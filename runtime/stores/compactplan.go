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

	// members are those of the stores that were attached.
	members []Store
}

// planCompaction decides which stores are compacted, and what of them is kept.
func (s *session) planCompaction(o CompactOptions) (CompactPlan, error) {
	p := planner{session: s, parents: map[string]string{}, tops: map[string]string{}}
	p.plan.Images, p.plan.Layers = map[string]bool{}, map[string]bool{}
	if err := p.chooseStores(o.All); err != nil {
		return p.plan, err
	}
	if err := p.readRecords(); err != nil {
		return p.plan, err
	}
	if err := p.keepReleases(); err != nil {
		return p.plan, err
	}
	if err := p.keepWanted(); err != nil {
		return p.plan, err
	}
	return p.plan, p.keepUsed(o.GraphRoot)
}

// planner makes a CompactPlan.
type planner struct {
	*session
	plan CompactPlan
	// roots are where the stores are mounted.
	roots []string
	// parents of the stores' layers, and top layers of their images.
	parents, tops map[string]string
}

// chooseStores chooses the stores that are mounted, and the appliance's own if all are wanted.
func (p *planner) chooseStores(all bool) error {
	mounted, err := readMountTable()
	if err != nil {
		return err
	}
	if all {
		device, err := deviceAt(p.slots.all[0])
		if err != nil {
			return err
		}
		p.plan.Stores, p.roots = append(p.plan.Stores, device), append(p.roots, p.slots.all[0])
	}
	for _, o := range p.state.Stores {
		e, err := p.sources.extent(o)
		if err == nil && p.mounts.problem(o, mounted) == nil {
			p.plan.members = append(p.plan.members, o)
			p.plan.Stores, p.roots = append(p.plan.Stores, e), append(p.roots, p.slots.path(o))
		}
	}
	if len(p.plan.Stores) < 2 || len(p.plan.members) == 0 {
		return fmt.Errorf("%w: %d are attached", ErrNothingToCompact, len(p.plan.members))
	}
	return nil
}

// readRecords reads those of the stores that are compacted.
func (p *planner) readRecords() error {
	for _, root := range p.roots {
		records, err := readRecords(os.DirFS(root))
		if err != nil {
			return fmt.Errorf("%s: %w", root, err)
		}
		for _, l := range records.layers {
			p.parents[l.ID] = l.Parent
		}
		for _, img := range records.images {
			p.tops[img.ID] = img.Layer
		}
	}
	return nil
}

// keepReleases keeps the images of all releases whose stores are compacted, and makes one lock
// of theirs. The platform and the sets are those of the newest.
func (p *planner) keepReleases() error {
	for _, r := range slices.Backward(p.state.Releases) {
		i := slices.IndexFunc(p.plan.members, func(o Store) bool { return o.ID == r.Store })
		if i < 0 {
			continue
		}
		c, err := readContent(os.DirFS(p.slots.path(p.plan.members[i])))
		if err != nil {
			return err
		}
		if p.plan.Lock.Version == 0 {
			p.plan.Lock = pinset.Lock{Version: c.Lock.Version, Platform: c.Lock.Platform, Sets: c.Lock.Sets}
			p.plan.Sets, p.plan.Name = c.Sets, p.plan.members[i].Name
		}
		for _, img := range c.Lock.Images {
			p.keepLocked(img)
		}
	}
	if p.plan.Lock.Version == 0 {
		return fmt.Errorf("%w: no release has its store here", ErrNothingToCompact)
	}
	return nil
}

// keepWanted keeps the images of the stores that sets ask for.
func (p *planner) keepWanted() error {
	asked, err := p.usage.asked()
	if err != nil {
		return err
	}
	for _, o := range p.plan.members {
		lock, err := readLock(filepath.Join(p.slots.path(o), layout.OwnLock))
		if err != nil {
			return err
		}
		for _, img := range lock.Images {
			if slices.ContainsFunc(asked, func(a pinset.Image) bool { return a.String() == img.Pin }) {
				p.keepLocked(img)
			}
		}
	}
	return nil
}

// keepUsed keeps what CRI-O's own store refers to.
func (p *planner) keepUsed(root string) error {
	main, err := readMain(root)
	if err != nil {
		return err
	}
	for _, l := range main.layers {
		p.keepLayer(l.Parent)
	}
	for _, img := range main.images {
		p.keepLayer(img.Layer)
	}
	for _, c := range main.containers {
		p.keepImage(c.Image)
	}
	return nil
}

// keepLocked keeps an image and adds it to the lock.
func (p *planner) keepLocked(img pinset.LockedImage) {
	same := func(there pinset.LockedImage) bool { return there.Pin == img.Pin }
	if !slices.ContainsFunc(p.plan.Lock.Images, same) {
		p.plan.Lock.Images = append(p.plan.Lock.Images, img)
	}
	p.keepImage(img.Config.Encoded())
}

func (p *planner) keepImage(id string) {
	if top, ok := p.tops[id]; ok {
		p.plan.Images[id] = true
		p.keepLayer(top)
	}
}

// keepLayer keeps a layer, and those below it, of the stores that are compacted.
func (p *planner) keepLayer(layer string) {
	for {
		parent, ok := p.parents[layer]
		if !ok || p.plan.Layers[layer] {
			return
		}
		p.plan.Layers[layer], layer = true, parent
	}
}
