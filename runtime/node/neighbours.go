package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/neighbour"
	"github.com/pinbox/pinbox/runtime/remote"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
)

// Neighbours of which a store is fetched.
var _ fetch.Nearby = (*neighbour.Download)(nil)

// ServeOptions say how the files of a node are offered to its neighbours.
type ServeOptions struct {
	neighbour.Server
	// Interface is the network interface, and Port where it listens; "" is neighbour.DefaultPort.
	Interface, Port string
}

// Serve offers the files of the stores of a node until ctx ends.
func Serve(ctx context.Context, o Options, s *ServeOptions, log *slog.Logger) error {
	o = o.complete()
	s.Dir, s.Log = storesDir(o), log
	if s.Port == "" {
		s.Port = neighbour.DefaultPort
	}
	return s.ServeOn(ctx, s.Interface, s.Port)
}

// storesDir is the folder of the state and of the attached stores.
func storesDir(o Options) string { return filepath.Join(o.stateDir(), layout.AttachedDir) }

// fetchStore brings a store to the folder of incoming ones: from neighbours, or from its source.
func fetchStore(
	ctx context.Context, o Options, in *stores.Incoming, s remote.Store, how remote.Options,
) (file string, from *runtime.StoreFetch, err error) {
	dir, have, err := in.Folder(s.Digest, s.Name)
	if err != nil {
		return "", nil, err
	}
	if err := makeRoom(o, max(s.Size-have, 0)); err != nil {
		return "", nil, fmt.Errorf("%s: %w", s.Origin, errors.Join(err, in.Clear()))
	}
	from = &runtime.StoreFetch{Source: s.Origin, Bytes: s.Size}
	end := func() {}
	if serving := neighbour.Serving(storesDir(o)); len(o.Neighbours)+len(serving) > 0 {
		var near *neighbour.Download
		if near, end, err = nearby(o, s, dir, serving, how); err != nil {
			return "", nil, err
		}
		how.Nearby = near
		defer func() { from.FromNeighbours = near.Bytes() }()
	}
	defer end()
	file, err = s.Fetch(ctx, dir, how)
	if err != nil && ctx.Err() == nil && !errors.Is(err, fetch.ErrServer) {
		err = errors.Join(err, in.Clear())
	}
	return file, from, err
}

// nearby returns the download of a store from neighbours, which hear of it.
func nearby(
	o Options, s remote.Store, dir string, serving []string, how remote.Options,
) (d *neighbour.Download, end func(), err error) {
	announced, err := neighbour.Announce(dir, s.Name, s.Size)
	if err != nil {
		return nil, nil, err
	}
	d = neighbour.New(s.Digest, s.Size, neighbour.Options{
		Neighbours: o.Neighbours, Self: serving, Announce: announced.Set,
		Note: func(address string, why error) {
			if how.Note != nil {
				how.Note(fmt.Errorf("the neighbour %s is not asked any more: %w", address, why))
			}
		},
	})
	return d, func() { announced.Close(); d.Close() }, nil
}

// keep keeps a thin delta for neighbours.
func keep(o Options) func(file string, id digest.Digest) error {
	return func(file string, id digest.Digest) error { return neighbour.Keep(storesDir(o), file, id, o.Keep) }
}

// makeRoom returns an ErrSpace if a file of so many bytes does not fit even without what is kept for neighbours.
func makeRoom(o Options, bytes int64) error {
	err := o.fits(bytes)
	if err == nil {
		return nil
	}
	return errors.Join(neighbour.Trim(storesDir(o), 0, ""), o.fits(bytes))
}
