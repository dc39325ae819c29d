package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/signature"
)

// What a store of a server cannot be used for.
var (
	ErrRemoteInPlace = fault.New(fault.Usage, "a store of a server cannot be used in place", "leave out --in-place")
	ErrMirrors       = fault.New(fault.Usage, "only a store of a server can have more than one name",
		"attach one store after the other; several URLs are the same store on several servers")
	ErrRemoteDryRun = fault.New(fault.Usage, "a dry run fetches no store from a server",
		"copy its folder to this machine, and name that")
)

// attachRemote fetches a store from a server, unless the node has it, and attaches it from the disk. What was fetched
// stays only if the fetch was interrupted: the next attach of the same store continues.
func (n *Node) attachRemote(
	ctx context.Context, m stores.Manager, a stores.AttachOptions,
) (attached stores.Attached, err error) {
	if a.InPlace {
		return attached, fmt.Errorf("%s: %w", a.Source, ErrRemoteInPlace)
	}
	in, err := stores.OpenIncoming(ctx, m)
	if err != nil {
		return attached, err
	}
	defer in.Close()
	how, err := n.fetching(m)
	if err != nil {
		return attached, err
	}
	how.Digest, how.Note = a.Digest, a.Progress.Note
	how.Done = func(done, all int64) { a.Progress.Done(stores.Fetching, stores.Store{}, done, all) }
	found, err := fetch.Find(ctx, append([]string{a.Source}, a.Mirrors...), how)
	if err != nil {
		return attached, err
	}
	origin := a.Source
	a.Source, a.Mirrors, a.Digest = "", nil, found.Digest
	lacks, err := stores.Lacks(ctx, m, found.Digest)
	if err != nil {
		return attached, fmt.Errorf("%s: %w", origin, err)
	}
	if lacks {
		if a.Source, err = n.fetchStore(ctx, in, found, how); err != nil {
			return attached, err
		}
		a.Take = true
	}
	if attached, err = n.attach(ctx, m, a); err != nil {
		err = fmt.Errorf("%s: %w", origin, err)
	}
	if err == nil || !errors.Is(err, stores.ErrBusy) && ctx.Err() == nil {
		err = errors.Join(err, in.Clear())
	}
	return attached, err
}

// fetching is how this node asks a server for a store.
func (n *Node) fetching(m stores.Manager) (fetch.Options, error) {
	keys, err := signature.ReadKeysDir(m.Keys)
	if err != nil {
		return fetch.Options{}, fmt.Errorf("keys: %w", err)
	}
	least := runtime.DefaultLeastRate
	if n.conf.LeastRate != nil {
		least = *n.conf.LeastRate
	}
	return fetch.Options{Keys: keys, Stall: time.Duration(n.conf.Stall), Least: int64(least)}, nil
}

// fetchStore brings a store to the folder of incoming ones.
func (n *Node) fetchStore(
	ctx context.Context, in *stores.Incoming, s fetch.Store, how fetch.Options,
) (string, error) {
	dir, have, err := in.Folder(s.Digest, s.Name)
	if err != nil {
		return "", err
	}
	if err := n.fits(max(s.Size-have, 0)); err != nil {
		return "", fmt.Errorf("%s: %w", s.Origin, errors.Join(err, in.Clear()))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, s.Name)
	_, err = s.Fetch(ctx, file, how)
	if err != nil && ctx.Err() == nil && !errors.Is(err, fetch.ErrServer) {
		err = errors.Join(err, in.Clear())
	}
	return file, err
}
