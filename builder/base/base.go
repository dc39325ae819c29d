package base

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
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
func Read(names []string, platform pinset.Platform) ([]Base, error) {
	var bases []Base
	for _, name := range names {
		b, err := readBase(name)
		if err != nil {
			return nil, err
		}
		if b.Locked.Platform != platform {
			return nil, fmt.Errorf("%s: %w for %s: it is for %s", name, ErrUnsuitable, platform, b.Locked.Platform)
		}
		bases = append(bases, b)
	}
	return bases, nil
}

func readBase(name string) (Base, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return Base{}, err
	}
	if fi.IsDir() {
		if mounted := filepath.Join(name, layout.OwnLock); isFile(mounted) { // a store that is mounted there
			return fileBase(mounted, "", "")
		}
		return folderBase(name)
	}
	if image, f, err := iso.OpenFile(name); err == nil {
		defer f.Close()
		return isoBaseOf(image, name)
	}
	if err := looksLikeLock(name); err != nil {
		return Base{}, err
	}
	return fileBase(name, "", "")
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// fileBase reads the lock in a file.
func fileBase(name, sum, store string) (Base, error) {
	f, err := input.Open(name)
	if err != nil {
		return Base{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return Base{}, err
	}
	return newBase(name, func() io.Reader { return io.NewSectionReader(f, 0, fi.Size()) }, sum, store)
}

// looksLikeLock prevents that a store, which may be large, is read as a lock.
func looksLikeLock(name string) error {
	f, err := input.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	start := make([]byte, 64)
	n, err := io.ReadFull(f, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(start[:n]), []byte("{")) {
		return fmt.Errorf("%s: %w, and not a lock", name, artifact.ErrNotAppliance)
	}
	return nil
}

func folderBase(dir string) (Base, error) {
	sums, err := artifact.ReadSums(dir)
	if err != nil {
		return Base{}, err
	}
	f, store := format.Find(sums)
	if f != nil && f.Describe().UnsuitableBase != "" {
		return Base{}, fmt.Errorf("%s: %w: %s", dir, ErrUnsuitable, f.Describe().UnsuitableBase)
	}
	return fileBase(filepath.Join(dir, artifact.LockFile), sums[artifact.LockFile], sums[store])
}

func isoBaseOf(image *iso.Image, name string) (Base, error) {
	text, err := image.ReadText(path.Join(iso.Dir, artifact.ISOSums))
	if errors.Is(err, iso9660.ErrNotFound) {
		return Base{}, fmt.Errorf("%s: %w", name, fault.Wrap(artifact.ErrNotAppliance, err))
	}
	if err != nil {
		return Base{}, fmt.Errorf("%s: %w", name, err)
	}
	sums, err := artifact.ParseSums(text, name, artifact.ISOSums)
	if err != nil {
		return Base{}, err
	}
	f, err := image.Find(path.Join(iso.Dir, artifact.ISOLock))
	if err != nil {
		return Base{}, fmt.Errorf("%s: %w", name, err)
	}
	return newBase(name, f.Reader, sums[artifact.ISOLock], sums[artifact.ISOStore])
}

// newBase decodes a lock, which it reads twice instead of holding 40 MB: it is verified first. sum is the SHA-256
// that the lock must have, store the one of the store's file; "" if unknown.
func newBase(name string, open func() io.Reader, sum, store string) (b Base, err error) {
	if b.Lock, err = digest.FromReader(open()); err != nil {
		return b, fmt.Errorf("%s: %w", name, err)
	}
	if sum != "" && b.Lock.Encoded() != sum {
		return b, fmt.Errorf("%s: %w: the lock has SHA-256 %s, want %s", name, artifact.ErrVerify, b.Lock.Encoded(), sum)
	}
	if store != "" {
		b.Store = digest.NewDigestFromEncoded(digest.SHA256, store)
	}
	again := digest.SHA256.Digester()
	text := io.TeeReader(open(), again.Hash())
	if b.Locked, err = artifact.DecodeLock(text, name); err != nil {
		return b, err
	}
	if _, err := io.Copy(io.Discard, text); err != nil {
		return b, fmt.Errorf("%s: %w", name, err)
	}
	if again.Digest() != b.Lock {
		return b, fmt.Errorf("%s: %w: it was changed while it was read", name, artifact.ErrVerify)
	}
	return b, nil
}

// HasProgram reports whether nodes with the base have the pinbox-node of that digest.
func (b Base) HasProgram(sum digest.Digest) bool {
	return b.Locked.Program != nil && b.Locked.Program.Digest == sum
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
	// artifacts counts the bases that have an OCI artifact, by its pin, and bases are all.
	artifacts map[string]int
	bases     int
}

// HasArtifact reports whether all bases have an OCI artifact.
func (c Common) HasArtifact(pin string) bool { return c.artifacts[pin] == c.bases }

// NewCommon intersects the bases. The Needs of the delta are the layers of the images that all bases have.
func NewCommon(bases []Base, images []pinset.LockedImage) Common {
	c := Common{
		layers: inAll(bases), Delta: pinset.Delta{Version: pinset.DeltaVersion, Needs: []pinset.Need{}},
		artifacts: map[string]int{}, bases: len(bases),
	}
	for _, b := range bases {
		for _, a := range b.Locked.Artifacts {
			c.artifacts[a.Pin]++
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
func (c Common) Layers() []string { return slices.Sorted(maps.Keys(c.layers)) }

// Missing returns the layers of an image that are not in all bases.
func (c Common) Missing(img pinset.LockedImage) (layers []*pinset.LockedLayer) {
	for _, p := range Chain(img) {
		if _, ok := c.layers[p.ID]; !ok {
			layers = append(layers, p.LockedLayer)
		}
	}
	return layers
}

// AddTo adds to a delta's store the layers of the images that are in the bases.
func (c Common) AddTo(store *compose.Store, images []pinset.LockedImage) error {
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
