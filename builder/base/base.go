package base

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
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
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrUnsuitable says that no delta can be made for what a node has.
var ErrUnsuitable = errors.New("cannot be the base of a delta")

// Base is what nodes have: an appliance, or one with its deltas.
type Base struct {
	pinset.Base
	// Locked is what its lock says.
	Locked pinset.Lock
}

// Read reads folders, ISOs and locks, all for one platform.
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
		return folderBase(name)
	}
	if image, f, err := iso.OpenFile(name); err == nil {
		defer f.Close()
		return isoBaseOf(image, name)
	}
	if err := looksLikeLock(name); err != nil {
		return Base{}, err
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return Base{}, err
	}
	return newBase(name, content, "", "")
}

// looksLikeLock keeps the store itself, of any size, from being read as a lock.
func looksLikeLock(name string) error {
	f, err := os.Open(name)
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
		return fmt.Errorf("%s: %w, and no lock", name, artifact.ErrNotAppliance)
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
	content, err := os.ReadFile(filepath.Join(dir, artifact.LockFile))
	if err != nil {
		return Base{}, err
	}
	return newBase(filepath.Join(dir, artifact.LockFile), content, sums[artifact.LockFile], sums[store])
}

func isoBaseOf(image *iso.Image, name string) (Base, error) {
	text, err := image.ReadText(path.Join(iso.Dir, artifact.ISOSums))
	if errors.Is(err, iso9660.ErrNotFound) {
		return Base{}, fmt.Errorf("%s: %w: %w", name, artifact.ErrNotAppliance, err)
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
	content, err := io.ReadAll(f.Reader())
	if err != nil {
		return Base{}, fmt.Errorf("%s: %w", name, err)
	}
	return newBase(name, content, sums[artifact.ISOLock], sums[artifact.ISOStore])
}

// newBase compares the lock with its SHA-256, if that is known. store is that of the
// store's file.
func newBase(name string, lock []byte, sum, store string) (b Base, err error) {
	b.Lock = digest.FromBytes(lock)
	if sum != "" && b.Lock.Encoded() != sum {
		return b, fmt.Errorf("%s: %w: SHA-256 %s, was %s", name, artifact.ErrVerify, b.Lock.Encoded(), sum)
	}
	if store != "" {
		b.Store = digest.NewDigestFromEncoded(digest.SHA256, store)
	}
	if b.Locked, err = artifact.DecodeLock(bytes.NewReader(lock), name); err != nil {
		return b, err
	}
	return b, nil
}

// Layers of the base as a store has them, by their IDs.
func (b Base) Layers() map[string]compose.Unpacked {
	all := map[string]compose.Unpacked{}
	for _, img := range b.Locked.Images {
		for _, p := range Chain(img) {
			all[p.ID] = compose.Unpacked{ID: p.ID, Size: p.UnpackedSize, Inodes: p.Inodes, Root: p.Root}
		}
	}
	return all
}

// Layer is a layer in its place in a store.
type Layer struct {
	pinset.LockedLayer
	// ID of the layer in a store, and of the one below it.
	ID, Parent string
}

// Chain gives the layers of an image from the bottom up.
func Chain(img pinset.LockedImage) (all []Layer) {
	parent := ""
	for _, l := range img.Layers {
		id := compose.LayerID(parent, l.DiffID)
		all = append(all, Layer{l, id, parent})
		parent = id
	}
	return all
}

// Common is what all bases of a delta have in common.
type Common struct {
	// Delta describes the delta.
	Delta pinset.Delta
	// layers that every base has, by their IDs.
	layers map[string]compose.Unpacked
}

// NewCommon finds out what a delta of the images needs of bases, of which a node
// has one.
func NewCommon(name string, bases []Base, images []pinset.LockedImage) Common {
	c := Common{
		layers: inAll(bases), Delta: pinset.Delta{Version: pinset.DeltaVersion, Name: name, Needs: []pinset.Need{}},
	}
	for _, b := range bases {
		c.Delta.Bases = append(c.Delta.Bases, b.Base)
	}
	slices.SortFunc(c.Delta.Bases, func(a, b pinset.Base) int {
		return cmp.Or(strings.Compare(string(a.Store), string(b.Store)), strings.Compare(string(a.Lock), string(b.Lock)))
	})
	c.Delta.Bases = slices.Compact(c.Delta.Bases)
	for _, img := range images {
		for _, p := range Chain(img) {
			if _, ok := c.layers[p.ID]; ok {
				c.Delta.Needs = append(c.Delta.Needs, pinset.Need{Layer: p.ID, Link: compose.LinkName(p.ID)})
			}
		}
	}
	slices.SortFunc(c.Delta.Needs, func(a, b pinset.Need) int { return strings.Compare(a.Layer, b.Layer) })
	c.Delta.Needs = slices.Compact(c.Delta.Needs)
	return c
}

// inAll gives the layers that all bases have, with what any of them knows.
func inAll(bases []Base) map[string]compose.Unpacked {
	all := bases[0].Layers()
	for _, b := range bases[1:] {
		other := b.Layers()
		for id, u := range all {
			o, ok := other[id]
			if !ok {
				delete(all, id)
				continue
			}
			all[id] = compose.Unpacked{
				ID: id, Size: cmp.Or(u.Size, o.Size), Inodes: cmp.Or(u.Inodes, o.Inodes), Root: cmp.Or(u.Root, o.Root),
			}
		}
	}
	return all
}

// Missing gives the layers of an image that not all bases have.
func (c Common) Missing(img pinset.LockedImage) (layers []pinset.LockedLayer) {
	for _, p := range Chain(img) {
		if _, ok := c.layers[p.ID]; !ok {
			layers = append(layers, p.LockedLayer)
		}
	}
	return layers
}

// AddTo tells a store of the layers that it stands on.
func (c Common) AddTo(store *compose.Store, images []pinset.LockedImage) error {
	for _, img := range images {
		for _, p := range Chain(img) {
			there, ok := c.layers[p.ID]
			if !ok {
				continue
			}
			if err := store.AddBase(compose.Layer{Parent: p.Parent, Digest: p.Digest, DiffID: p.DiffID}, there); err != nil {
				return fmt.Errorf("lock of a base: %w: image %s: %w", pinset.ErrBadLock, img.Pin, err)
			}
		}
	}
	return nil
}
