package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/thin"
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

// Thin returns a store for package thin.
func Thin(s *release.Store) thin.Store {
	return thin.Store{Name: s.Name, File: s.Bytes(), Size: s.Size}
}

// Rebuild makes the store of a thin delta, as a node does, in a file without a name in the folder tmp. Bases are the
// stores in which contents are looked for. read is called with the bytes of each part of a layer's tar stream; it
// may be nil. The caller closes the store.
func Rebuild(
	ctx context.Context, s *release.Store, bases []*release.Store, tmp string, read func(int),
) (*release.Store, error) {
	files, err := s.Files()
	if err != nil {
		return nil, err
	}
	recipes, err := thin.Open(Thin(s), thin.Limits{})
	if err != nil {
		return nil, err
	}
	records := layout.Open(files)
	lock, err := records.Lock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	d, err := records.Delta()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	var stores []thin.Store
	for _, b := range bases {
		stores = append(stores, Thin(b))
	}
	d.Thin = nil
	store, err := compose.Rebuild{
		Documents: files, Lock: lock, Delta: d, TempDir: tmp,
		Open: func(ctx context.Context, diffID digest.Digest, blocks *squashfs.BlockCache) (io.ReadCloser, error) {
			l, err := recipes.Layer(ctx, diffID, stores, blocks)
			return counted{l, read}, err
		},
	}.Compose(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	defer store.Close()
	f, err := atomicfile.Unnamed(tmp)
	if err != nil {
		return nil, err
	}
	if err := store.Write(ctx, f, func(int64) {}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return release.NewStore(s.Name, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), f, store.Size()), nil
}

// counted reports what is read.
type counted struct {
	io.ReadCloser
	read func(int)
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.read != nil {
		c.read(n)
	}
	return n, err
}
