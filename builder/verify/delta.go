package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/root"
)

// ErrNotDelta says that bases are given for something that is not a delta.
var ErrNotDelta = fault.New(fault.Input, "not a delta's folder or medium",
	"--base is for the output of `pinbox delta` only")

// Delta describes a delta that was verified.
type Delta struct {
	// Layers counts the layers in the delta, Needs the layers that its bases must have.
	Layers int `json:"layers"`
	Needs  int `json:"needs"`
	// Bases are the stores that have all needed layers, if they were given.
	Bases []string `json:"bases,omitempty"`
	// Mounted is true if containers/storage has checked the delta and its bases, mounted together.
	Mounted bool `json:"mounted"`
	// Thin describes a thin delta; nil for another delta.
	Thin *Thin `json:"thin,omitempty"`
}

// delta compares delta.json in a delta's folder with the one in its store.
func (v *Result) delta(r *release.Release, lock pinset.Lock) error {
	content, err := r.Read(layout.DeltaFile, layout.MaxStoreBytes)
	if err != nil {
		return err
	}
	if _, err := pinset.DecodeDelta(bytes.NewReader(content)); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(v.Dir, layout.DeltaFile), err)
	}
	store, err := r.Store()
	if err != nil {
		return err
	}
	d, err := openDelta(store, lock)
	switch {
	case err != nil:
		return err
	case d == nil || !bytes.Equal(d.text, content):
		return fmt.Errorf("%s has another %s", r.Names.Store, layout.DeltaFile)
	}
	v.Delta = d.verified()
	return nil
}

// storedDelta is the description of a delta in its store.
type storedDelta struct {
	pinset.Delta
	text []byte
	// own are the layers in the delta's store, by their IDs; those of a thin delta are in the store that a node makes.
	own  map[string]bool
	lock pinset.Lock
}

func (d *storedDelta) verified() *Delta {
	v := &Delta{Layers: len(d.own), Needs: len(d.Needs)}
	if d.Thin != nil {
		v.Thin = &Thin{StoreSize: d.Thin.StoreSize}
	}
	return v
}

// openDelta reads the description of a delta from its store, and compares the store with the lock. It
// returns nil if the store is not a delta's, or nil.
func openDelta(store *release.Store, lock pinset.Lock) (*storedDelta, error) {
	if store == nil {
		return nil, nil
	}
	files, err := store.Files()
	if err != nil {
		return nil, err
	}
	text, err := files.ReadFile(layout.OwnDelta)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	d := storedDelta{text: text, lock: lock}
	if d.Delta, err = pinset.DecodeDelta(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if d.own, err = ownLayers(d.Delta, lock); err != nil {
		return nil, err
	}
	layers := sameLayers(files, d.own)
	if d.Thin != nil {
		layers = d.sameRecipes(store)
	}
	if err := errors.Join(sameLock(files, lock), layers); err != nil {
		return &d, err
	}
	return &d, auditStore(files, lock)
}

// checkStore checks the store of an appliance, and compares it with the lock. nil is fine.
func checkStore(store *release.Store, lock pinset.Lock) error {
	if store == nil {
		return nil
	}
	files, err := store.Files()
	if err != nil {
		return err
	}
	if err := sameLock(files, lock); err != nil {
		return err
	}
	return auditStore(files, lock)
}

// auditStore checks a store as a node does before it mounts the store.
func auditStore(files fs.FS, lock pinset.Lock) error {
	if _, err := audit.Locked(files, lock); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// ownLayers returns the layers of the lock that the delta does not need from a base, by their IDs.
func ownLayers(d pinset.Delta, lock pinset.Lock) (map[string]bool, error) {
	needed := map[string]bool{}
	for _, n := range d.Needs {
		needed[n.Layer] = true
	}
	own, known := map[string]bool{}, map[string]bool{}
	var errs []error
	for _, img := range lock.Images {
		for _, p := range base.Chain(img) {
			known[p.ID] = true
			if !needed[p.ID] {
				own[p.ID] = true
			} else if own[p.Parent] {
				errs = append(errs, fmt.Errorf("%s needs layer %s from a base, but has the layer below it itself",
					layout.DeltaFile, p.ID))
			}
		}
	}
	for _, n := range d.Needs {
		if !known[n.Layer] {
			errs = append(errs, fmt.Errorf("%s needs layer %s, which no image of the lock has", layout.DeltaFile, n.Layer))
		}
	}
	return own, errors.Join(errs...)
}

func sameLock(files fs.FS, lock pinset.Lock) error {
	f, err := files.Open(layout.OwnLock)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	got, want := sha256.New(), sha256.New()
	if _, err := io.Copy(got, f); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := lock.Encode(want); err != nil {
		return err
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		return fmt.Errorf("the store has another %s", layout.LockFile)
	}
	return nil
}

// sameLayers compares the records of a store's layers with the wanted IDs.
func sameLayers(files fs.FS, want map[string]bool) error {
	var got []string
	err := layout.Open(files).Layers(func(l layout.Layer) error {
		got = append(got, l.ID)
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	slices.Sort(got)
	if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		return fmt.Errorf("the store has %d layers, want the %d that %s does not need from a base",
			len(got), len(want), layout.DeltaFile)
	}
	return nil
}

// ErrMissing says that a delta needs a layer that the given bases do not have.
var ErrMissing = fault.New(fault.Damaged, "no base has a layer that the delta needs",
	"give --base once for each store that the delta needs, down to the appliance; `bases` in delta.json lists what "+
		"it was made for")

// withBases checks that the bases together have every layer that a delta needs: an appliance, and the deltas between.
// For root, containers/storage also checks all of them, mounted together.
func (v *Result) withBases(ctx context.Context, r *release.Release, bases []string, hooks progress.Hooks) error {
	if v.Delta == nil {
		return fmt.Errorf("%s: %w", r.Name, ErrNotDelta)
	}
	c := completion{}
	defer c.close()
	if err := c.open(r); err != nil {
		return err
	}
	var damaged error // a base, of which the recipes of a thin delta tell more
	for _, b := range bases {
		err := c.add(ctx, b, hooks)
		if c.delta.Thin != nil && errors.Is(err, release.ErrVerify) && ctx.Err() == nil {
			damaged = errors.Join(damaged, err)
		} else if err != nil {
			return err
		}
	}
	err := c.check(ctx, hooks)
	if err = errors.Join(err, damaged); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, root.ErrMount) {
			return err
		}
		return failed(r.Name+" with "+strings.Join(bases, ", "), err)
	}
	v.Unchecked, v.Delta.Bases, v.Delta.Mounted = c.unchecked, bases, len(c.unchecked) == 0
	if v.Delta.Thin != nil {
		v.Delta.Thin.Rebuilt = c.rebuilt
	}
	return nil
}

// completion checks a delta with its bases.
type completion struct {
	delta     *storedDelta
	stores    []stored // that of the delta first
	unchecked []string
	// rebuilt is how many layers of the delta were put together.
	rebuilt int
	opened  []io.Closer
}

// stored is a store of a completion.
type stored struct {
	*release.Store // nil if only its lock is known; of a thin delta the one that a node makes, once it is made
	name           string
	// layers are those that the store has, by their IDs.
	layers map[string]bool
	// delta is nil if the store is not one of a delta.
	delta *storedDelta
}

// open opens the delta, which was verified.
func (c *completion) open(r *release.Release) error {
	lock, err := r.Lock()
	if err != nil {
		return err
	}
	store, err := r.Store()
	if err != nil {
		return err
	}
	if c.delta, err = openDelta(store, lock); err == nil {
		c.stores = []stored{{store, r.Name, c.delta.own, c.delta}}
	}
	return err
}

// add verifies a base, and records its layers.
func (c *completion) add(ctx context.Context, name string, hooks progress.Hooks) error {
	r, err := release.Open(name, nil)
	if err != nil {
		return err
	}
	c.opened = append(c.opened, r)
	b, err := base.Of(r, c.delta.lock.Platform)
	if err != nil {
		return err
	}
	var damaged error
	if b.Store != "" {
		if _, damaged = verified(ctx, r, hooks); damaged != nil && c.delta.Thin == nil {
			return damaged
		}
	}
	store, err := r.Store()
	if err != nil {
		return errors.Join(damaged, err)
	}
	if store == nil {
		c.unchecked = append(c.unchecked, name+" has no store that can be mounted: its layers were read from the lock only")
	}
	s := stored{Store: store, name: name, layers: map[string]bool{}}
	if s.delta, err = openDelta(store, b.Locked); err != nil {
		if damaged != nil {
			return damaged
		}
		return failed(name, err)
	}
	for id := range b.Layers() {
		if s.delta == nil || s.delta.own[id] { // the lock of a delta lists the layers of its bases too
			s.layers[id] = true
		}
	}
	c.stores = append(c.stores, s)
	return damaged
}

// lacks returns the layers that a delta requires of other stores, and that these do not have.
func (d *storedDelta) lacks(stores []stored) []string {
	return slices.DeleteFunc(d.Requires(), func(id string) bool {
		return slices.ContainsFunc(stores, func(s stored) bool { return s.layers[id] })
	})
}

// check reports missing layers, and problems that containers/storage finds.
func (c *completion) check(ctx context.Context, hooks progress.Hooks) error {
	if missing := c.delta.lacks(c.stores[1:]); len(missing) > 0 {
		return fmt.Errorf("%w: %d of %d are missing, such as %s", ErrMissing, len(missing), len(c.delta.Requires()),
			missing[0])
	}
	if len(c.unchecked) == 0 {
		if err := c.rebuild(ctx, hooks); err != nil {
			return err
		}
	}
	var errs []error
	if why := root.CannotExamine(); why != "" {
		c.unchecked = append(c.unchecked, "contents of the layers of base and delta: "+why)
	}
	if len(c.unchecked) > 0 {
		return nil
	}
	hooks.Begin("check layers", 0)
	var stores []root.StoreFile
	for _, s := range c.stores {
		stores = append(stores, root.StoreFile{File: s.Path, Offset: s.Offset, Size: s.Size})
	}
	problems, err := root.Examine(ctx, stores)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		errs = append(errs, errors.New(problem))
	}
	return errors.Join(errs...)
}
