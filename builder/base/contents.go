package base

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Errors of bases whose contents are needed.
var (
	// ErrNoContents says that a base is known by its lock only, or cannot be read.
	ErrNoContents = fault.New(fault.Input,
		"a thin delta is made of the contents of its bases, and it has none that can be read",
		"name the folder, the ISO or the medium of the store with --from, or the folder where it is mounted")
	// ErrIncomplete says that the base of a delta is not beside it.
	ErrIncomplete = fault.New(fault.Input, "it is a delta, and the store that it needs is not in the same folder",
		"put the folders or ISOs of the delta and of what it was built over into one folder")
)

// Contents are the stores of a base: its own and, if that is one of a delta, those that the delta needs.
type Contents struct {
	Name   string
	Stores []Store

	tmp          string
	layers, seen map[string]bool // IDs, and names of stores
}

// OpenContents opens the stores of a base: the folder, ISO or medium of an appliance or of a delta, or the mount
// point of a store. Of a delta it also opens what the delta needs, which is in the same folder. The store of a thin
// delta is made in the folder tmp, without a name.
func OpenContents(ctx context.Context, name, tmp string) (*Contents, error) {
	c := &Contents{Name: name, tmp: tmp, layers: map[string]bool{}, seen: map[string]bool{}}
	if err := c.add(ctx, name); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes all stores.
func (c *Contents) Close() (err error) {
	for _, s := range c.Stores {
		err = errors.Join(err, s.Close())
	}
	return err
}

// add adds a store, after those that it needs.
func (c *Contents) add(ctx context.Context, name string) error {
	c.seen[filepath.Clean(name)] = true
	s, err := OpenStore(name)
	if err != nil {
		return err
	}
	d, err := s.delta()
	for err == nil && slices.ContainsFunc(d.Requires(), func(id string) bool { return !c.layers[id] }) {
		below, found := c.beside(name, d)
		if !found {
			err = fmt.Errorf("%s: %w", name, ErrIncomplete)
			break
		}
		err = c.add(ctx, below)
	}
	if err == nil && d.Thin != nil {
		var whole Store
		whole, err = s.Rebuild(ctx, c.Stores, c.tmp, nil)
		err = errors.Join(err, s.Close())
		s = whole
	}
	if err == nil {
		err = s.eachLayer(func(l layout.Layer) { c.layers[l.ID] = true })
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	c.Stores = append(c.Stores, s)
	return nil
}

// beside finds a store in the folder of name that is one of the bases of a delta.
func (c *Contents) beside(name string, d pinset.Delta) (string, bool) {
	dir := filepath.Dir(filepath.Clean(name))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if c.seen[path] {
			continue
		}
		b, err := readBase(path)
		if err == nil && slices.ContainsFunc(d.Bases, func(want pinset.Base) bool {
			return want.Lock == b.Lock && (want.Store == "" || want.Store == b.Store)
		}) {
			return path, true
		}
	}
	return "", false
}
