package builder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
)

// ErrNotDelta says that something has no base that it could be checked with.
var ErrNotDelta = errors.New("not a delta's folder or medium")

// VerifiedDelta is what Verify says of a delta.
type VerifiedDelta struct {
	// Layers in the delta, and Needs of others: each as it stands in a store.
	Layers int `json:"layers"`
	Needs  int `json:"needs"`
	// Bases with which it was found to be complete.
	Bases []string `json:"bases,omitempty"`
	// Mounted says that containers/storage has judged delta and bases together.
	Mounted bool `json:"mounted"`
}

func isDelta(sums map[string]string) bool { return sums[DeltaFile]+sums[DeltaStoreFile] != "" }

// delta compares the description of a delta's folder with its lock.
func (v *Verified) delta(dir string, lock pinset.Lock) error {
	d, err := readDelta(dir)
	if err != nil {
		return err
	}
	own, err := ownLayers(d, lock)
	v.Delta = &VerifiedDelta{Layers: len(own), Needs: len(d.Needs)}
	return err
}

func readDelta(dir string) (pinset.Delta, error) {
	name := filepath.Join(dir, DeltaFile)
	content, err := os.ReadFile(name)
	if err != nil {
		return pinset.Delta{}, err
	}
	d, err := pinset.DecodeDelta(bytes.NewReader(content))
	if err != nil {
		return pinset.Delta{}, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// ownLayers gives the layers of the lock that a delta has itself, by their IDs. Its
// needs must be the others.
func ownLayers(d pinset.Delta, lock pinset.Lock) (map[string]bool, error) {
	needed := map[string]bool{}
	for _, n := range d.Needs {
		needed[n.Layer] = true
	}
	own, known := map[string]bool{}, map[string]bool{}
	var errs []error
	for _, img := range lock.Images {
		for _, p := range chainOf(img) {
			known[p.id] = true
			if !needed[p.id] {
				own[p.id] = true
			} else if own[p.parent] {
				errs = append(errs, fmt.Errorf("%s needs layer %s from a base, and has the one below itself", DeltaFile, p.id))
			}
		}
	}
	last := ""
	for _, n := range d.Needs {
		switch {
		case !known[n.Layer]:
			errs = append(errs, fmt.Errorf("%s needs layer %s, which no image of the lock has", DeltaFile, n.Layer))
		case n.Link != compose.LinkName(n.Layer):
			errs = append(errs, fmt.Errorf("%s has %q as the short name of layer %s, which is %s", DeltaFile, n.Link, n.Layer, compose.LinkName(n.Layer)))
		case n.Layer <= last:
			errs = append(errs, fmt.Errorf("%s is not sorted at layer %s", DeltaFile, n.Layer))
		}
		last = n.Layer
	}
	return own, errors.Join(errs...)
}

// VerifyDelta is Verify that also finds out whether a delta is complete on bases that
// stand together: an appliance and the deltas between. As root it has containers/storage
// judge all of them, mounted.
func VerifyDelta(ctx context.Context, name string, bases []string, hooks Hooks) (Verified, error) {
	v, err := Verify(ctx, name, hooks)
	if err != nil || len(bases) == 0 {
		return v, err
	}
	c := completion{name: name, below: map[string]bool{}}
	if c.lock, err = ReadLock(name); err != nil {
		return Verified{}, err
	}
	if err := c.open(); err != nil {
		return Verified{}, err
	}
	for _, b := range bases {
		if err := c.add(ctx, b, hooks); err != nil {
			return Verified{}, err
		}
	}
	if err := c.check(ctx, hooks); err != nil {
		if ctx.Err() != nil || errors.Is(err, root.ErrMount) || errors.Is(err, ErrNotDelta) {
			return Verified{}, cmp.Or(ctx.Err(), err)
		}
		return Verified{}, fmt.Errorf("%s with %s: %w:\n%w", name, strings.Join(bases, ", "), ErrVerify, err)
	}
	v.Unchecked = c.unchecked
	if c.delta != nil {
		own, _ := ownLayers(*c.delta, c.lock) // judged before
		v.Delta = &VerifiedDelta{Layers: len(own), Needs: len(c.delta.Needs), Bases: bases, Mounted: len(c.unchecked) == 0}
	}
	return v, nil
}

// completion is a delta with its bases.
type completion struct {
	name  string
	lock  pinset.Lock
	delta *pinset.Delta // nil while only the store tells it
	// below are the layers of the bases, by their IDs.
	below     map[string]bool
	stores    []root.Packed
	unchecked []string
}

// open finds the delta's own store, and its description if that stands beside it.
func (c *completion) open() error {
	store, err := packedStore(c.name)
	if err != nil {
		return err
	}
	c.stores = []root.Packed{store}
	switch {
	case store.Offset > 0:
		return nil
	case filepath.Base(store.File) != DeltaStoreFile:
		return fmt.Errorf("%s: %w", c.name, ErrNotDelta)
	}
	d, err := readDelta(c.name)
	c.delta = &d
	return err
}

// packedStore finds the store of a folder or an ISO; File is "" of what has none that
// can be mounted.
func packedStore(name string) (root.Packed, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return root.Packed{}, err
	}
	if fi.IsDir() {
		for _, file := range []string{DeltaStoreFile, StoreFile} {
			store := filepath.Join(name, file)
			if fi, err := os.Stat(store); err == nil {
				return root.Packed{File: store, Size: fi.Size()}, nil
			}
		}
		return root.Packed{}, nil
	}
	image, f, err := iso.OpenFile(name)
	if err != nil {
		return root.Packed{}, nil // a lock
	}
	defer f.Close()
	inside, err := image.Find(path.Join(iso.Dir, isoStore))
	if err != nil || !inside.InOnePiece() {
		return root.Packed{}, nil
	}
	return root.Packed{File: name, Offset: inside.Offset(), Size: inside.Size}, nil
}

// add verifies a base, and notes what it has.
func (c *completion) add(ctx context.Context, name string, hooks Hooks) error {
	b, err := readBases([]string{name}, c.lock.Platform)
	if err != nil {
		return err
	}
	store, err := packedStore(name)
	if err != nil {
		return err
	}
	layers := slices.Collect(maps.Keys(b[0].layers()))
	if store.File == "" {
		c.unchecked = append(c.unchecked, name+" has no store that can be mounted: of its layers the lock alone was read")
	} else {
		c.stores = append(c.stores, store)
	}
	if b[0].Store != "" {
		if _, err := Verify(ctx, name, hooks); err != nil {
			return err
		}
	}
	if filepath.Base(store.File) == DeltaStoreFile { // whose lock tells more than it has
		d, err := readDelta(name)
		if err != nil {
			return err
		}
		own, err := ownLayers(d, b[0].lock)
		if err != nil {
			return err
		}
		layers = slices.Collect(maps.Keys(own))
	}
	for _, id := range layers {
		c.below[id] = true
	}
	return nil
}

// check says what is missing or wrong.
func (c *completion) check(ctx context.Context, hooks Hooks) error {
	found, err := c.examine(ctx, hooks)
	if err != nil {
		return err
	}
	if c.delta == nil {
		c.unchecked = append(c.unchecked, "what the delta needs: on a medium only its store tells; the delta's folder does too")
		return nil
	}
	own, err := ownLayers(*c.delta, c.lock)
	errs := []error{err}
	for _, n := range c.delta.Needs {
		if !c.below[n.Layer] {
			errs = append(errs, fmt.Errorf("layer %s is in none of the bases", n.Layer))
		}
	}
	if found.Files != nil {
		errs = append(errs, sameLayers(found.Files[layersFile], own), sameNames(found.Files[imagesFile], c.lock))
	}
	if len(c.unchecked) == 0 { // else it is what is not here that the library complains of
		for _, complaint := range found.Complaints {
			errs = append(errs, errors.New(complaint))
		}
	}
	return errors.Join(errs...)
}

// examine mounts all stores, if it can.
func (c *completion) examine(ctx context.Context, hooks Hooks) (found root.Examined, err error) {
	if !root.MayExamine() {
		c.unchecked = append(c.unchecked, "what is in the layers, base and delta together: to mount them takes root")
		return found, nil
	}
	if len(c.unchecked) > 0 && c.delta != nil {
		return found, nil
	}
	hooks.step("check layers", 0)
	if found, err = root.Examine(ctx, c.stores, ownFiles...); err != nil {
		return found, err
	}
	return found, c.inside(found.Files)
}

// The files of a delta's store that are compared with those beside it.
const (
	layersFile = "overlay-layers/layers.json"
	imagesFile = "overlay-images/images.json"
)

var ownFiles = []string{storeDir + "/" + LockFile, storeDir + "/" + DeltaFile, layersFile, imagesFile}

// inside compares lock and description in the store with those that are known.
func (c *completion) inside(files map[string][]byte) error {
	if files[storeDir+"/"+DeltaFile] == nil {
		return fmt.Errorf("%s: %w", c.name, ErrNotDelta)
	}
	d, err := pinset.DecodeDelta(bytes.NewReader(files[storeDir+"/"+DeltaFile]))
	if err != nil {
		return fmt.Errorf("in the store: %w", err)
	}
	var lock, about, want bytes.Buffer
	err = errors.Join(c.lock.Encode(&lock), d.Encode(&about))
	if c.delta != nil {
		err = errors.Join(err, c.delta.Encode(&want))
	}
	switch {
	case err != nil:
		return err
	case !bytes.Equal(lock.Bytes(), files[storeDir+"/"+LockFile]):
		return fmt.Errorf("the store has another %s", LockFile)
	case c.delta != nil && !bytes.Equal(want.Bytes(), about.Bytes()):
		return fmt.Errorf("the store has another %s", DeltaFile)
	}
	c.delta = &d
	return nil
}

// sameLayers compares the records of a store's layers with those that it should have.
func sameLayers(records []byte, want map[string]bool) error {
	var layers []struct{ ID string }
	if err := json.Unmarshal(records, &layers); err != nil {
		return fmt.Errorf("%s: %w", layersFile, err)
	}
	var got []string
	for _, l := range layers {
		got = append(got, l.ID)
	}
	slices.Sort(got)
	if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		return fmt.Errorf("the store has %d layers, and not the %d that %s leaves to it", len(got), len(want), DeltaFile)
	}
	return nil
}

// sameNames looks for every name of the lock in the records of a store's images.
func sameNames(records []byte, lock pinset.Lock) error {
	var images []struct{ Names []string }
	if err := json.Unmarshal(records, &images); err != nil {
		return fmt.Errorf("%s: %w", imagesFile, err)
	}
	there := map[string]bool{}
	for _, img := range images {
		for _, name := range img.Names {
			there[name] = true
		}
	}
	var errs []error
	for _, img := range lock.Images {
		for _, name := range append([]string{img.Pin}, img.Tags...) {
			if !there[name] {
				errs = append(errs, fmt.Errorf("the store has no record of %s", name))
			}
		}
	}
	return errors.Join(errs...)
}
