package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
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
	Stores []*release.Store

	tmp    string
	layers map[string]bool // IDs
	seen   map[string]bool // names of releases
	opened []io.Closer
}

// OpenContents opens the stores of a base: the folder, ISO or medium of an appliance or of a delta, or the mount
// point of a store. Of a delta it also opens what the delta needs, which is in the same folder. The store of a thin
// delta is made in the folder tmp, without a name.
func OpenContents(ctx context.Context, name, tmp string) (*Contents, error) {
	c := &Contents{Name: name, tmp: tmp, layers: map[string]bool{}, seen: map[string]bool{}}
	r, err := release.Open(name, nil)
	if err != nil {
		return nil, err
	}
	if err := c.add(ctx, r); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes all stores.
func (c *Contents) Close() (err error) {
	for _, o := range c.opened {
		err = errors.Join(err, o.Close())
	}
	return err
}

// add adds the store of a release, after those that it needs.
func (c *Contents) add(ctx context.Context, r *release.Release) error {
	c.seen[filepath.Clean(r.Name)], c.opened = true, append(c.opened, r)
	s, err := r.Store()
	if err == nil && s == nil {
		err = fmt.Errorf("%s: %w", r.Name, ErrNoContents)
	}
	if err != nil {
		return err
	}
	d, err := r.Delta()
	if err != nil {
		return err
	}
	for slices.ContainsFunc(d.Requires(), func(id string) bool { return !c.layers[id] }) {
		below := c.beside(r.Name, d)
		if below == nil {
			return fmt.Errorf("%s: %w", r.Name, ErrIncomplete)
		}
		if err := c.add(ctx, below); err != nil {
			return err
		}
	}
	if d.Thin != nil {
		if s, err = Rebuild(ctx, s, c.Stores, c.tmp, nil); err != nil {
			return err
		}
		c.opened = append(c.opened, s)
	}
	files, err := s.Files()
	if err != nil {
		return err
	}
	if err := layout.Open(files).Layers(func(l layout.Layer) error {
		c.layers[l.ID] = true
		return nil
	}); err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	c.Stores = append(c.Stores, s)
	return nil
}

// beside opens a release in the folder of name that is one of the bases of a delta; nil if there is none.
func (c *Contents) beside(name string, d pinset.Delta) *release.Release {
	dir := filepath.Dir(filepath.Clean(name))
	entries, _ := os.ReadDir(dir) // what cannot be read is not there
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if c.seen[path] {
			continue
		}
		r, err := release.Open(path, nil)
		if err != nil {
			continue
		}
		id, err := r.ID()
		if err == nil && slices.ContainsFunc(d.Bases, func(want pinset.Base) bool {
			return want.Lock == id.Lock && (want.Store == "" || want.Store == id.Store)
		}) {
			return r
		}
		_ = r.Close() // it was only read
	}
	return nil
}
