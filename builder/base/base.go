package base

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

// ErrUnsuitable says that a store cannot be the base of a delta.
var ErrUnsuitable = fault.New(fault.Input, "cannot be the base of a delta",
	"name with --from what the nodes have; a full build works on every node")

// Base is a store that nodes have.
type Base struct {
	pinset.Base
	// Locked is the content of its lock.
	Locked pinset.Lock
	// Held are layers by their IDs, of a node whose stores are the base: see OfNode.
	Held map[string]compose.LayerInfo
}

// Read reads bases from folders, ISOs, mount points of stores, and locks. All of them must be for the platform.
func Read(names []string, platform pinset.Platform) (bases []Base, err error) {
	for _, name := range names {
		r, err := release.Open(name, nil)
		if err != nil {
			return nil, err
		}
		b, err := Of(r, platform)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		bases = append(bases, b)
	}
	return bases, nil
}

// Short says of which of the bases the files of the stores are too short. A delta needs only their sums, but whoever
// has an incomplete copy has it elsewhere, too.
func Short(names []string) (warnings []string, err error) {
	for _, name := range names {
		r, err := release.Open(name, nil)
		if err != nil {
			return nil, err
		}
		short, err := r.Short()
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		if short != "" {
			warnings = append(warnings, short)
		}
	}
	return warnings, nil
}

// Of returns the base that a release for the platform is.
func Of(r *release.Release, platform pinset.Platform) (b Base, err error) {
	if r.Names.Sums != "" {
		sums, err := r.Sums()
		if err != nil {
			return b, err
		}
		if f, _ := format.Find(sums); f != nil && f.Describe().UnsuitableBase != "" {
			return b, fmt.Errorf("%s: %w: %s", r.Name, ErrUnsuitable, f.Describe().UnsuitableBase)
		}
	}
	if b.Base, err = r.ID(); err != nil {
		return b, err
	}
	if b.Locked, err = r.Lock(); err != nil {
		return b, err
	}
	if b.Locked.Platform != platform {
		return b, fmt.Errorf("%s: %w for %s: it is for %s", r.Name, ErrUnsuitable, platform, b.Locked.Platform)
	}
	return b, nil
}

// Layers returns the layers of the base by their IDs in a store.
func (b Base) Layers() map[string]compose.LayerInfo {
	all := map[string]compose.LayerInfo{}
	for _, img := range b.Locked.Images {
		for _, p := range Chain(img) {
			all[p.ID] = compose.LayerInfo{ID: p.ID, Size: p.UnpackedSize, Inodes: p.Inodes, RootAttributes: p.RootAttributes}
		}
	}
	maps.Copy(all, b.Held)
	return all
}

// Layer is a layer of an image with its IDs in a store.
type Layer struct {
	*pinset.LockedLayer
	// ID of the layer, and ID of the layer below it; Parent is "" for the lowest one.
	ID, Parent string
}

// Chain returns the layers of an image, the lowest one first.
func Chain(img pinset.LockedImage) (all []Layer) {
	parent := ""
	for _, l := range img.Layers {
		id := layout.LayerID(parent, l.DiffID)
		all = append(all, Layer{l, id, parent})
		parent = id
	}
	return all
}

// Common is the intersection of the bases of a delta.
type Common struct {
	// Delta is the content of delta.json.
	Delta pinset.Delta
	// layers are the layers that every base has, by their IDs.
	layers map[string]compose.LayerInfo
	// artifacts counts the bases that have an OCI artifact, by its pin, programs those that have a pinbox-node, by its
	// digest, and bases are all.
	artifacts map[string]int
	programs  map[digest.Digest]int
	bases     int
}

// HasProgram reports whether nodes with any of the bases have the pinbox-node of that digest.
func (c *Common) HasProgram(sum digest.Digest) bool { return c.programs[sum] == c.bases }

// HasArtifact reports whether all bases have an OCI artifact.
func (c *Common) HasArtifact(pin string) bool { return c.artifacts[pin] == c.bases }

// NewCommon intersects the bases. The Needs of the delta are the layers of the images that all bases have.
func NewCommon(bases []Base, images []pinset.LockedImage) *Common {
	c := &Common{
		layers: inAll(bases), Delta: pinset.Delta{Version: pinset.DeltaVersion, Needs: []pinset.Need{}},
		artifacts: map[string]int{}, programs: map[digest.Digest]int{}, bases: len(bases),
	}
	for _, b := range bases {
		for _, a := range b.Locked.Artifacts {
			c.artifacts[a.Pin]++
		}
		if b.Locked.Program != nil {
			c.programs[b.Locked.Program.Digest]++
		}
		c.Delta.Bases = append(c.Delta.Bases, b.Base)
	}
	slices.SortFunc(c.Delta.Bases, func(a, b pinset.Base) int {
		return cmp.Or(strings.Compare(string(a.Store), string(b.Store)), strings.Compare(string(a.Lock), string(b.Lock)))
	})
	c.Delta.Bases = slices.Compact(c.Delta.Bases)
	needed := map[string]bool{}
	for _, img := range images {
		for _, p := range Chain(img) {
			if known, ok := c.layers[p.ID]; ok && !needed[p.ID] {
				needed[known.ID] = true // the text that layers has, too
				c.Delta.Needs = append(c.Delta.Needs, pinset.Need{Layer: known.ID, Link: layout.LinkName(p.ID)})
			}
		}
	}
	slices.SortFunc(c.Delta.Needs, func(a, b pinset.Need) int { return strings.Compare(a.Layer, b.Layer) })
	return c
}

// inAll returns the layers that all bases have. A field that one base does not know is taken from another.
func inAll(bases []Base) map[string]compose.LayerInfo {
	all := bases[0].Layers()
	for _, b := range bases[1:] {
		other := b.Layers()
		for id, u := range all {
			o, ok := other[id]
			if !ok {
				delete(all, id)
				continue
			}
			all[id] = compose.LayerInfo{
				ID: id, Size: cmp.Or(u.Size, o.Size), Inodes: cmp.Or(u.Inodes, o.Inodes),
				RootAttributes: cmp.Or(u.RootAttributes, o.RootAttributes),
			}
		}
	}
	return all
}

// Layers returns the IDs of the layers that all bases have, sorted.
func (c *Common) Layers() []string { return slices.Sorted(maps.Keys(c.layers)) }

// Missing returns the layers of an image that are not in all bases.
func (c *Common) Missing(img pinset.LockedImage) (layers []*pinset.LockedLayer) {
	for _, p := range Chain(img) {
		if _, ok := c.layers[p.ID]; !ok {
			layers = append(layers, p.LockedLayer)
		}
	}
	return layers
}

// AddTo adds to a delta's store the layers of the images that are in the bases.
func (c *Common) AddTo(store *compose.Store, images []pinset.LockedImage) error {
	for _, img := range images {
		for _, p := range Chain(img) {
			unpacked, ok := c.layers[p.ID]
			if !ok {
				continue
			}
			if err := store.AddBaseLayer(compose.Layer{Parent: p.Parent, Digest: p.Digest, DiffID: p.DiffID},
				unpacked); err != nil {
				return fmt.Errorf("lock of a base: %w: image %s: %w", pinset.ErrBadLock, img.Pin, err)
			}
		}
	}
	return nil
}

// OfNode returns the base that the stores of a node are together, as far as it is of use to images: it has those of
// their layers that the node has, with all layers below them. It is named after the current store. There must be one.
func OfNode(stores []pinset.StoreContent, images []pinset.LockedImage) Base {
	current := pinset.CurrentContent(stores)
	b := Base{Base: current.Base, Held: map[string]compose.LayerInfo{}, Locked: pinset.Lock{
		Version: pinset.LockVersion, ReleaseID: current.ReleaseID, Platform: current.Platform, Program: current.Program,
	}}
	there := map[string]pinset.StoredLayer{}
	for _, s := range stores {
		for _, l := range s.Layers {
			there[l.ID] = l
		}
		for _, pin := range s.Artifacts {
			b.Locked.Artifacts = append(b.Locked.Artifacts, pinset.LockedArtifact{Pin: pin})
		}
	}
	b.Locked.Artifacts = once(b.Locked.Artifacts)
	for _, img := range images {
		for _, p := range Chain(img) {
			l, ok := there[p.ID]
			if !ok {
				break
			}
			b.Held[p.ID] = compose.LayerInfo{
				ID: p.ID, Size: l.UnpackedSize, Inodes: l.Inodes, RootAttributes: l.RootAttributes,
			}
		}
	}
	return b
}

// once removes repeated artifacts, which would count as those of several bases.
func once(artifacts []pinset.LockedArtifact) (all []pinset.LockedArtifact) {
	seen := map[string]bool{}
	for _, a := range artifacts {
		if !seen[a.Pin] {
			seen[a.Pin] = true
			all = append(all, a)
		}
	}
	return all
}
