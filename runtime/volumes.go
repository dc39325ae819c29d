package runtime

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Volumes is CRI-O's own store, out of which alone CRI-O mounts image volumes: containers/storage issue 1864.
type Volumes interface {
	// Own returns the IDs of the images by their names, and the layers, which the store at the graph root has
	// itself.
	Own(graphRoot string) (names map[string]string, layers pinset.Layers, err error)
	// Copy writes these images, with all their layers, out of the read-only stores into it.
	Copy(ctx context.Context, graphRoot string, images []pinset.Image) error
}

// ErrVolumes means that pods cannot mount images as image volumes.
var ErrVolumes = errors.New("pods cannot mount image volumes out of a read-only store")

// copies are the images of image volumes that CRI-O's own store lacks, or has only in part.
type copies struct {
	images    []Pull
	graphRoot string
}

// err is an ErrVolumes with the images; nil if there are none.
func (c copies) err(copied bool) error {
	if len(c.images) == 0 {
		return nil
	}
	more := ""
	if n := len(c.images) - 1; n > 0 {
		more = fmt.Sprintf(" and %d others", n)
	}
	cure := `set "imageVolumes": "copy" in /etc/pinbox/node.json`
	if copied {
		cure = "the next pass copies them"
	}
	return fmt.Errorf("%w, and CRI-O's own store lacks %s%s: %s", ErrVolumes, c.images[0].Image, more, cure)
}

// findCopies finds the images of the sets that are on the node and that a lock lists as image volumes.
func (p *pass) findCopies(ctx context.Context) (c copies, err error) {
	if p.conf.Volumes == nil {
		return c, nil
	}
	stores, sets, err := p.conf.Disk.Locks()
	volumes := volumesOf(p.rep.nodeState, slices.Concat(stores, sets))
	if len(volumes) == 0 {
		return c, err
	}
	if c.graphRoot, err = p.r.Runtime.GraphRoot(ctx); err != nil {
		return c, err
	}
	names, layers, err := p.conf.Volumes.Own(c.graphRoot)
	if err != nil {
		return c, err
	}
	for _, v := range volumes {
		missing, _ := layers.MissingLayers(v.locked)
		if len(missing) > 0 || names[v.locked.Pin] == "" {
			c.images = append(c.images, Pull{Image: v.image, Need: need(missing, 0)})
		}
	}
	return c, nil
}

// volume is an image that pods use as an image volume.
type volume struct {
	image  pinset.Image
	locked pinset.LockedImage
}

// volumesOf returns the image volumes in the order of the images of the sets.
func volumesOf(n nodeState, locks []pinset.Lock) (all []volume) {
	found := map[string]pinset.LockedImage{}
	for _, lock := range locks {
		if _, arch, _ := lock.Platform.Split(); arch != goruntime.GOARCH {
			continue
		}
		for _, img := range lock.Images {
			if img.Volume {
				found[img.Pin] = img
			}
		}
	}
	for _, img := range n.want {
		_, present := n.present[img.String()]
		if locked, ok := found[img.String()]; ok && present {
			all = append(all, volume{img, locked})
		}
	}
	return all
}

// copyVolumes writes the images of image volumes into CRI-O's own store, if the node is configured so and they
// fit, and returns them.
func (p *pass) copyVolumes(ctx context.Context) ([]pinset.Image, error) {
	c, err := p.findCopies(ctx)
	if err != nil || len(c.images) == 0 || !p.conf.CopyVolumes {
		return nil, errors.Join(err, c.err(false))
	}
	space := p.space(c.graphRoot)
	space.limits.Task = "Copying the images of image volumes"
	if err := space.check(c.images); err != nil {
		return nil, err
	}
	var images []pinset.Image
	for _, pull := range c.images {
		images = append(images, pull.Image)
	}
	if err := p.conf.Volumes.Copy(ctx, c.graphRoot, images); err != nil {
		return nil, fmt.Errorf("image volumes: %w", err)
	}
	p.log.Info("copied image volumes into CRI-O's own store", "images", len(images), "first", images[0])
	return images, nil
}

// Copy writes the images of image volumes into CRI-O's own store, as a pass does, and returns them. It does
// nothing else.
func (r *Reconciler) Copy(ctx context.Context) ([]pinset.Image, error) {
	p, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	p.rep.sets, p.rep.broken = r.Node.Sets()
	if err := p.observe(ctx); err != nil {
		return nil, errors.Join(append(p.rep.problems, err)...)
	}
	return p.copyVolumes(ctx)
}
