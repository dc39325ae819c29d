package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/thin"
)

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
