package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// prune removes the images that no set asks for any more and no container uses. Images of read-only
// stores stay: CRI-O would only copy their record into its own store, without the name. Nothing is
// removed while there are no sets, since that is probably a mistake, or while a set cannot be read,
// since it may ask for the image. An image that CRI-O still pins is pinned by another drop-in, and
// stays.
func (p *pass) prune(ctx context.Context) error {
	n := &p.rep.nodeState
	if len(n.unpinned) == 0 || len(n.want) == 0 || n.broken != nil {
		return nil
	}
	used, err := p.r.Runtime.ImagesInUse(ctx)
	if err != nil {
		return err
	}
	others, err := p.conf.Disk.InUse(n.graphRoot)
	if err != nil {
		return err
	}
	maps.Copy(used, others)
	stores, _, err := p.conf.Disk.Locks()
	if err != nil {
		return err // then it is unknown which images the stores have
	}
	tried := map[pinset.Image]error{}
	for _, name := range n.unpinned {
		img, err := pinset.ParseImage(name)
		pinned, present := n.present[name]
		if err != nil || !present || pinned || inStores(name, stores) || n.inUse(name, used) {
			continue
		}
		tried[img] = p.r.Images.Remove(ctx, img)
	}
	err = n.list(ctx, p.r.Images, n.unpinned, n.latePulls)
	for img := range tried { // what brings it from now on is a pull of somebody else
		delete(n.latePulls, img.String())
	}
	return errors.Join(err, p.pruned(tried))
}

// pruned returns the errors of images that could not be removed. CRI-O returns an error for an
// image that was pulled over a read-only store although it has removed it, because it cannot remove
// the layers of that store (containers/storage, DeleteImage). So only images that are still listed
// count.
func (p *pass) pruned(tried map[pinset.Image]error) error {
	var errs []error
	byName := func(a, b pinset.Image) int { return strings.Compare(a.String(), b.String()) }
	for _, img := range slices.SortedFunc(maps.Keys(tried), byName) {
		_, present := p.rep.present[img.String()]
		if err := tried[img]; err != nil && present {
			errs = append(errs, fmt.Errorf("remove %s: %w", img, err))
			continue
		}
		p.log.Info("removed", "image", img)
	}
	return errors.Join(errs...)
}

func inStores(name string, locks []pinset.Lock) bool {
	return slices.ContainsFunc(locks, func(l pinset.Lock) bool {
		return slices.ContainsFunc(l.Images, func(i pinset.LockedImage) bool { return i.Pin == name })
	})
}

// inUse reports that a container uses the image of this name, by any of its names, or that it is
// the pause image.
func (n nodeState) inUse(name string, used map[string]bool) bool {
	inUse := func(alias string) bool { return used[alias] || alias == n.pause }
	return slices.ContainsFunc(n.stored, func(s pinset.StoredImage) bool {
		return slices.Contains(s.Names, name) && (used[s.ID] || slices.ContainsFunc(s.Names, inUse))
	})
}
