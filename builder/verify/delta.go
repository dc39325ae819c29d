package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// ErrNotDelta says that bases are given for something that is not a delta.
var ErrNotDelta = errors.New("not a delta's folder or medium")

// Delta describes a delta that was verified.
type Delta struct {
	// Layers counts the layers in the delta, Needs the layers that its bases must have.
	Layers int `json:"layers"`
	Needs  int `json:"needs"`
	// Bases are the stores that have all needed layers, if they were given.
	Bases []string `json:"bases,omitempty"`
	// Mounted is true if containers/storage has checked the delta and its bases, mounted together.
	Mounted bool `json:"mounted"`
}

// delta compares delta.json in a delta's folder with the one in its store.
func (v *Result) delta(dir string, lock pinset.Lock) error {
	name := filepath.Join(dir, artifact.DeltaFile)
	content, err := input.Read(name)
	if err != nil {
		return err
	}
	if _, err := pinset.DecodeDelta(bytes.NewReader(content)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	store, err := artifact.FindStore(dir)
	if err != nil {
		return err
	}
	d, err := openDelta(store, lock)
	switch {
	case err != nil:
		return err
	case d == nil || !bytes.Equal(d.text, content):
		return fmt.Errorf("%s has another %s", artifact.DeltaStoreFile, artifact.DeltaFile)
	}
	v.Delta = d.verified()
	return nil
}

// storedDelta is the description of a delta in its store.
type storedDelta struct {
	pinset.Delta
	text []byte
	// own are the layers in the delta's store, by their IDs.
	own map[string]bool
}

func (d *storedDelta) verified() *Delta {
	return &Delta{Layers: len(d.own), Needs: len(d.Needs)}
}

// openDelta reads the description of a delta from its store, and compares the store with the lock. It
// returns nil if the store is not a delta's.
func openDelta(store root.StoreFile, lock pinset.Lock) (d *storedDelta, err error) {
	err = withStore(store, func(files *squashfs.Reader) error {
		text, err := files.ReadFile(layout.OwnDelta)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		found := storedDelta{text: text}
		if found.Delta, err = pinset.DecodeDelta(bytes.NewReader(text)); err != nil {
			return fmt.Errorf("store: %w", err)
		}
		if found.own, err = ownLayers(found.Delta, lock); err != nil {
			return err
		}
		d = &found
		return cmp.Or(errors.Join(sameLock(files, lock), sameLayers(files, found.own)), auditStore(files))
	})
	return d, err
}

// checkStore checks the store of an appliance, and compares it with the lock.
func checkStore(store root.StoreFile, lock pinset.Lock) error {
	return withStore(store, func(files *squashfs.Reader) error {
		return cmp.Or(sameLock(files, lock), auditStore(files))
	})
}

// checkFolderStore checks the store in the folder of an appliance.
func checkFolderStore(dir string, lock pinset.Lock) error {
	store, err := artifact.FindStore(dir)
	if err != nil {
		return err
	}
	return checkStore(store, lock)
}

// withStore opens a store, if it is one that a node mounts.
func withStore(store root.StoreFile, check func(*squashfs.Reader) error) error {
	if store.File == "" {
		return nil
	}
	f, err := input.Medium(store.File)
	if err != nil {
		return err
	}
	defer f.Close()
	files, err := squashfs.OpenImage(io.NewSectionReader(f, store.Offset, store.Size), store.Size)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return check(files)
}

// auditStore checks a store as a node does before it mounts the store.
func auditStore(files fs.FS) error {
	if _, err := audit.Store(files); err != nil {
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
					artifact.DeltaFile, p.ID))
			}
		}
	}
	for _, n := range d.Needs {
		if !known[n.Layer] {
			errs = append(errs, fmt.Errorf("%s needs layer %s, which no image of the lock has", artifact.DeltaFile, n.Layer))
		}
	}
	return own, errors.Join(errs...)
}

func sameLock(files fs.FS, lock pinset.Lock) error {
	content, err := fs.ReadFile(files, layout.OwnLock)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	var want bytes.Buffer
	if err := lock.Encode(&want); err != nil {
		return err
	}
	if !bytes.Equal(content, want.Bytes()) {
		return fmt.Errorf("the store has another %s", artifact.LockFile)
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
			len(got), len(want), artifact.DeltaFile)
	}
	return nil
}

// ErrMissing says that a delta needs a layer that the given bases do not have.
var ErrMissing = errors.New("no base has a layer that the delta needs")

// WithBases is Artifact that also checks that the bases together have every layer that a delta needs: an
// appliance, and the deltas between. For root, containers/storage also checks all of them, mounted together.
func WithBases(ctx context.Context, name string, bases []string, hooks progress.Hooks) (Result, error) {
	v, err := Artifact(ctx, name, hooks)
	if err != nil || len(bases) == 0 {
		return v, err
	}
	if v.Delta == nil {
		return Result{}, fmt.Errorf("%s: %w", name, ErrNotDelta)
	}
	c := completion{baseLayers: map[string]bool{}}
	if err := c.open(name); err != nil {
		return Result{}, err
	}
	for _, b := range bases {
		if err := c.add(ctx, b, hooks); err != nil {
			return Result{}, err
		}
	}
	if err := c.check(ctx, hooks); err != nil {
		if ctx.Err() != nil || errors.Is(err, root.ErrMount) {
			return Result{}, cmp.Or(ctx.Err(), err)
		}
		return Result{}, fmt.Errorf("%s with %s: %w:\n%w", name, strings.Join(bases, ", "), artifact.ErrVerify, err)
	}
	v.Unchecked, v.Delta.Bases, v.Delta.Mounted = c.unchecked, bases, len(c.unchecked) == 0
	return v, nil
}

// completion checks a delta with its bases.
type completion struct {
	lock  pinset.Lock
	delta *storedDelta
	// baseLayers are the layers of the bases, by their IDs.
	baseLayers map[string]bool
	stores     []root.StoreFile
	unchecked  []string
}

// open opens the delta, which Artifact has verified.
func (c *completion) open(name string) (err error) {
	if c.lock, err = artifact.ReadLock(name); err != nil {
		return err
	}
	store, err := artifact.FindStore(name)
	if err != nil {
		return err
	}
	c.stores = []root.StoreFile{store}
	c.delta, err = openDelta(store, c.lock)
	return err
}

// add verifies a base, and records its layers.
func (c *completion) add(ctx context.Context, name string, hooks progress.Hooks) error {
	b, err := base.Read([]string{name}, c.lock.Platform)
	if err != nil {
		return err
	}
	if b[0].Store != "" {
		if _, err := Artifact(ctx, name, hooks); err != nil {
			return err
		}
	}
	store, err := artifact.FindStore(name)
	if err != nil {
		return err
	}
	if store.File == "" {
		c.unchecked = append(c.unchecked, name+" has no store that can be mounted: its layers were read from the lock only")
	} else {
		c.stores = append(c.stores, store)
	}
	d, err := openDelta(store, b[0].Locked)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, artifact.ErrVerify, err)
	}
	for id := range b[0].Layers() {
		if d == nil || d.own[id] { // the lock of a delta lists the layers of its bases too
			c.baseLayers[id] = true
		}
	}
	return nil
}

// check reports missing layers, and problems that containers/storage finds.
func (c *completion) check(ctx context.Context, hooks progress.Hooks) error {
	var missing []string
	for _, n := range c.delta.Needs {
		if !c.baseLayers[n.Layer] {
			missing = append(missing, n.Layer)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %d of %d are missing, such as %s", ErrMissing, len(missing), len(c.delta.Needs),
			missing[0])
	}
	var errs []error
	if why := root.CannotExamine(); why != "" {
		c.unchecked = append(c.unchecked, "contents of the layers of base and delta: "+why)
	}
	if len(c.unchecked) > 0 {
		return nil
	}
	hooks.Begin("check layers", 0)
	problems, err := root.Examine(ctx, c.stores)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		errs = append(errs, errors.New(problem))
	}
	return errors.Join(errs...)
}
