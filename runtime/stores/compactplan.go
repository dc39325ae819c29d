package stores

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// CompactPlan is what goes into a compacted store.
type CompactPlan struct {
	// Stores to compact, oldest first.
	Stores []mount.Extent
	// Images and Layers that the compacted store has, by their IDs.
	Images, Layers map[string]bool
	// Lock and Sets of the newest release. The lock has all of Images, and the OCI artifacts that the compacted
	// store has.
	Lock pinset.Lock
	Sets map[string]string
	// TempDir is a folder for temporary files.
	TempDir string
	// Progress is called with the bytes written so far and the size of the store; nil is fine.
	Progress func(written, size int64)

	// attached are the ones among Stores that were attached: all but the appliance's own.
	attached []Store
}

// planCompaction decides which stores are compacted, and which of their images and layers the
// compacted store has.
func (s *session) planCompaction(o CompactOptions) (CompactPlan, error) {
	p := planner{session: s, parents: map[string]string{}, tops: map[string]string{}, artifacts: map[string]bool{}}
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
	if err := p.keepUsed(o.GraphRoots); err != nil {
		return p.plan, err
	}
	return p.plan, p.lockKept()
}

// planner makes a CompactPlan.
type planner struct {
	*session
	plan CompactPlan
	// roots are the mount points of the stores.
	roots []string
	// parents are the parents of the stores' layers, tops the top layers of their images.
	parents, tops map[string]string
	// artifacts are the pins of the OCI artifacts that are kept.
	artifacts map[string]bool
}

// chooseStores chooses the attached stores that are mounted and, with all, the appliance's own.
func (p *planner) chooseStores(all bool) error {
	mounted, err := mount.ReadTable()
	if err != nil {
		return err
	}
	if all {
		device, err := deviceOf(p.slots.all[0])
		if err != nil {
			return err
		}
		p.plan.Stores, p.roots = append(p.plan.Stores, device), append(p.roots, p.slots.all[0])
	}
	for _, o := range p.state.Stores {
		if _, err := p.sources.extent(o); err != nil || p.mounts.problem(o, mounted) != nil {
			continue
		}
		device, err := deviceOf(p.slots.path(o)) // not the file: the device may verify what is read
		if err != nil {
			return err
		}
		p.plan.attached = append(p.plan.attached, o)
		p.plan.Stores, p.roots = append(p.plan.Stores, device), append(p.roots, p.slots.path(o))
	}
	if len(p.plan.Stores) < 2 || len(p.plan.attached) == 0 {
		return fmt.Errorf("%w: %d are mounted", ErrNothingToCompact, len(p.plan.attached))
	}
	return nil
}

// deviceOf finds the device of the store that is mounted at a root.
func deviceOf(root string) (mount.Extent, error) {
	device, err := mount.DeviceAt(root)
	if errors.Is(err, mount.ErrNone) {
		err = fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return device, err
}

// readRecords reads the records of the stores.
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

// keepReleases keeps the images of all releases whose stores are compacted. The platform and the
// sets are those of the newest release.
func (p *planner) keepReleases() error {
	for _, r := range slices.Backward(p.state.Releases) {
		i := slices.IndexFunc(p.plan.attached, func(o Store) bool { return o.ID == r.Store })
		if i < 0 {
			continue
		}
		c, err := readContent(os.DirFS(p.slots.path(p.plan.attached[i])))
		if err != nil {
			return err
		}
		if p.plan.Lock.Version == 0 {
			p.plan.Lock, p.plan.Sets = c.Lock, c.Sets
			p.plan.Lock.Images, p.plan.Lock.Artifacts = nil, nil
		}
		for _, img := range c.Lock.Images {
			p.keepImage(img.Config.Encoded())
		}
		for _, a := range c.Lock.Artifacts {
			p.artifacts[a.Pin] = true
		}
	}
	if p.plan.Lock.Version == 0 {
		return fmt.Errorf("%w: none of the stores has a release", ErrNothingToCompact)
	}
	return nil
}

// keepWanted keeps the images that sets ask for.
func (p *planner) keepWanted() error {
	wanted, err := p.usage.wantedImages()
	if err != nil {
		return err
	}
	for _, o := range p.plan.attached {
		lock, err := readLock(filepath.Join(p.slots.path(o), layout.OwnLock))
		if err != nil {
			return err
		}
		for _, img := range lock.Images {
			if slices.ContainsFunc(wanted, func(w pinset.Image) bool { return w.String() == img.Pin }) {
				p.keepImage(img.Config.Encoded())
			}
		}
		for _, a := range lock.Artifacts {
			if slices.ContainsFunc(wanted, func(w pinset.Image) bool { return w.String() == a.Pin }) {
				p.artifacts[a.Pin] = true
			}
		}
	}
	return nil
}

// keepUsed keeps the layers and images that CRI-O's main store refers to.
func (p *planner) keepUsed(graphRoots []string) error {
	main, err := p.usage.readMain(graphRoots)
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

func (p *planner) keepImage(id string) {
	if top, ok := p.tops[id]; ok {
		p.plan.Images[id] = true
		p.keepLayer(top)
	}
}

// keepLayer keeps a layer and the layers below it, as far as the stores have them.
func (p *planner) keepLayer(layer string) {
	for {
		parent, ok := p.parents[layer]
		if !ok || p.plan.Layers[layer] {
			return
		}
		p.plan.Layers[layer], layer = true, parent
	}
}

// lockKept makes the lock of all images and artifacts that are kept, of the locks of the stores. A tag that was
// moved is that of the newest store: two images of a store cannot have one name.
func (p *planner) lockKept() error {
	moved := map[string]bool{}
	held, err := p.heldArtifacts()
	if err != nil {
		return err
	}
	for _, root := range slices.Backward(p.roots) {
		lock, err := readLock(filepath.Join(root, layout.OwnLock))
		if err != nil {
			return err
		}
		for _, img := range lock.Images {
			if p.plan.Images[img.Config.Encoded()] {
				p.lockImage(img, moved)
			}
		}
		for _, a := range lock.Artifacts {
			if p.artifacts[a.Pin] && held[a.Pin] {
				p.lockArtifact(a, moved)
			}
		}
	}
	return nil
}

// heldArtifacts returns the names of the OCI artifacts that the stores have. The lock of a delta also lists those of
// its bases.
func (p *planner) heldArtifacts() (map[string]bool, error) {
	held := map[string]bool{}
	for _, root := range p.roots {
		found, err := layout.Open(os.DirFS(root)).Artifacts()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root, err)
		}
		for _, a := range found {
			held[a.Name] = true
		}
	}
	return held, nil
}

// ownTags returns the tags that are not in moved, and adds them there.
func ownTags(tags []string, moved map[string]bool) []string {
	tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return moved[tag] })
	for _, tag := range tags {
		moved[tag] = true
	}
	return tags
}

// lockArtifact adds an artifact to the lock, without the tags that another one has.
func (p *planner) lockArtifact(a pinset.LockedArtifact, moved map[string]bool) {
	a.Tags = ownTags(a.Tags, moved)
	same := func(other pinset.LockedArtifact) bool { return other.Pin == a.Pin }
	i := slices.IndexFunc(p.plan.Lock.Artifacts, same)
	if i < 0 {
		p.plan.Lock.Artifacts = append(p.plan.Lock.Artifacts, a)
		return
	}
	locked := &p.plan.Lock.Artifacts[i]
	locked.Tags = slices.Sorted(slices.Values(append(slices.Clone(locked.Tags), a.Tags...)))
}

// lockImage adds an image to the lock, without the tags that another image has.
func (p *planner) lockImage(img pinset.LockedImage, moved map[string]bool) {
	img.Tags = ownTags(img.Tags, moved)
	same := func(other pinset.LockedImage) bool { return other.Pin == img.Pin }
	i := slices.IndexFunc(p.plan.Lock.Images, same)
	if i < 0 {
		p.plan.Lock.Images = append(p.plan.Lock.Images, img)
		return
	}
	locked := &p.plan.Lock.Images[i]
	locked.Tags = slices.Sorted(slices.Values(append(slices.Clone(locked.Tags), img.Tags...)))
}
