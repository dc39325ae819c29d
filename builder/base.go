package builder

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

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrBase says that no delta can be made for what a node has.
var ErrBase = errors.New("cannot be the base of a delta")

// base is what nodes have: an appliance, or one with its deltas.
type base struct {
	name string
	pinset.Base
	lock pinset.Lock
}

// readBases reads folders, ISOs and locks, all for one platform.
func readBases(names []string, platform pinset.Platform) ([]base, error) {
	var bases []base
	for _, name := range names {
		b, err := readBase(name)
		if err != nil {
			return nil, err
		}
		if b.lock.Platform != platform {
			return nil, fmt.Errorf("%s: %w for %s: it is for %s", name, ErrBase, platform, b.lock.Platform)
		}
		bases = append(bases, b)
	}
	return bases, nil
}

func readBase(name string) (base, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return base{}, err
	}
	if fi.IsDir() {
		return folderBase(name)
	}
	if image, f, err := iso.OpenFile(name); err == nil {
		defer f.Close()
		return isoBaseOf(image, name)
	}
	if err := looksLikeLock(name); err != nil {
		return base{}, err
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return base{}, err
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
		return fmt.Errorf("%s: %w, and no lock", name, ErrNotAppliance)
	}
	return nil
}

func folderBase(dir string) (base, error) {
	sums, err := readSums(dir)
	if err != nil {
		return base{}, err
	}
	if sums[rootRecords] != "" {
		return base{}, fmt.Errorf("%s: %w: the library that wrote its store made up the names by which layers are mounted; formats squashfs and tar can carry deltas", dir, ErrBase)
	}
	content, err := os.ReadFile(filepath.Join(dir, LockFile))
	if err != nil {
		return base{}, err
	}
	return newBase(filepath.Join(dir, LockFile), content, sums[LockFile], cmp.Or(sums[StoreFile], sums[StoreTar], sums[DeltaStoreFile]))
}

func isoBaseOf(image *iso.Image, name string) (base, error) {
	text, err := image.Text(path.Join(iso.Dir, isoSums))
	if errors.Is(err, iso.ErrNotFound) {
		return base{}, fmt.Errorf("%s: %w: %w", name, ErrNotAppliance, err)
	}
	if err != nil {
		return base{}, fmt.Errorf("%s: %w", name, err)
	}
	sums, err := parseSums(text, name, isoSums)
	if err != nil {
		return base{}, err
	}
	f, err := image.Find(path.Join(iso.Dir, isoLock))
	if err != nil {
		return base{}, fmt.Errorf("%s: %w", name, err)
	}
	content, err := io.ReadAll(f.Reader())
	if err != nil {
		return base{}, fmt.Errorf("%s: %w", name, err)
	}
	return newBase(name, content, sums[isoLock], sums[isoStore])
}

// newBase compares the lock with its SHA-256, if that is known. store is that of the
// store's file.
func newBase(name string, lock []byte, sum, store string) (b base, err error) {
	b.name, b.Lock = name, digest.FromBytes(lock)
	if sum != "" && b.Lock.Encoded() != sum {
		return b, fmt.Errorf("%s: %w: SHA-256 %s, was %s", name, ErrVerify, b.Lock.Encoded(), sum)
	}
	if store != "" {
		b.Store = digest.NewDigestFromEncoded(digest.SHA256, store)
	}
	if b.lock, err = decodeLock(bytes.NewReader(lock), name); err != nil {
		return b, err
	}
	for _, img := range b.lock.Images {
		for _, l := range img.Layers {
			if err := l.DiffID.Validate(); err != nil {
				return b, fmt.Errorf("%s: %w: diffID %q of %s: %w", name, pinset.ErrBadLock, l.DiffID, img.Pin, err)
			}
		}
	}
	return b, nil
}

// layers of the base as a store has them, by their IDs.
func (b base) layers() map[string]compose.Unpacked {
	all := map[string]compose.Unpacked{}
	for _, img := range b.lock.Images {
		for _, p := range chainOf(img) {
			all[p.id] = compose.Unpacked{ID: p.id, Size: p.UnpackedSize, Inodes: p.Inodes, Root: p.Root}
		}
	}
	return all
}

// placed is a layer in its place in a store.
type placed struct {
	pinset.LockedLayer
	id, parent string
}

// chainOf gives the layers of an image from the bottom up.
func chainOf(img pinset.LockedImage) (all []placed) {
	parent := ""
	for _, l := range img.Layers {
		id := compose.LayerID(parent, l.DiffID)
		all = append(all, placed{l, id, parent})
		parent = id
	}
	return all
}

// foundation is what a delta stands on.
type foundation struct {
	delta pinset.Delta
	// layers that every base has, by their IDs.
	layers map[string]compose.Unpacked
}

// newFoundation finds out what a delta of the images needs of bases, of which a node
// has one.
func newFoundation(name string, bases []base, images []pinset.LockedImage) foundation {
	f := foundation{layers: common(bases), delta: pinset.Delta{Version: pinset.DeltaVersion, Name: name, Needs: []pinset.Need{}}}
	for _, b := range bases {
		f.delta.Bases = append(f.delta.Bases, b.Base)
	}
	slices.SortFunc(f.delta.Bases, func(a, b pinset.Base) int {
		return cmp.Or(strings.Compare(string(a.Store), string(b.Store)), strings.Compare(string(a.Lock), string(b.Lock)))
	})
	f.delta.Bases = slices.Compact(f.delta.Bases)
	for _, img := range images {
		for _, p := range chainOf(img) {
			if _, ok := f.layers[p.id]; ok {
				f.delta.Needs = append(f.delta.Needs, pinset.Need{Layer: p.id, Link: compose.LinkName(p.id)})
			}
		}
	}
	slices.SortFunc(f.delta.Needs, func(a, b pinset.Need) int { return strings.Compare(a.Layer, b.Layer) })
	f.delta.Needs = slices.Compact(f.delta.Needs)
	return f
}

// common gives the layers that all bases have, with what any of them knows.
func common(bases []base) map[string]compose.Unpacked {
	all := bases[0].layers()
	for _, b := range bases[1:] {
		other := b.layers()
		for id, u := range all {
			o, ok := other[id]
			if !ok {
				delete(all, id)
				continue
			}
			all[id] = compose.Unpacked{ID: id, Size: cmp.Or(u.Size, o.Size), Inodes: cmp.Or(u.Inodes, o.Inodes), Root: cmp.Or(u.Root, o.Root)}
		}
	}
	return all
}

// lacking gives the layers of an image that not all bases have.
func (f foundation) lacking(img pinset.LockedImage) (layers []pinset.LockedLayer) {
	for _, p := range chainOf(img) {
		if _, ok := f.layers[p.id]; !ok {
			layers = append(layers, p.LockedLayer)
		}
	}
	return layers
}

// lay tells a store of the layers that it stands on.
func (f foundation) lay(store *compose.Store, images []pinset.LockedImage) error {
	for _, img := range images {
		for _, p := range chainOf(img) {
			there, ok := f.layers[p.id]
			if !ok {
				continue
			}
			if err := store.AddBase(compose.Layer{Parent: p.parent, Digest: p.Digest, DiffID: p.DiffID}, there); err != nil {
				return fmt.Errorf("lock of a base: %w: image %s: %w", pinset.ErrBadLock, img.Pin, err)
			}
		}
	}
	return nil
}
