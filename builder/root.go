package builder

import (
	"context"
	"errors"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
)

// libraryDir is for what the library keeps while it writes a store.
const libraryDir = ".library"

// writeRoot has the library write the store, as a folder. The lock that it returns
// knows the unpacked sizes.
func writeRoot(ctx context.Context, o Options, s *artifact.Stage, client *storage.Client, c contents) (lock pinset.Lock, made stored, err error) {
	store, err := root.New(s.Path(artifact.StoreDir), s.Path(libraryDir), o.stamp(c.images))
	if err != nil {
		return lock, made, err
	}
	defer func() { err = errors.Join(err, store.Abort()) }()
	if o.Hooks.Filling != nil {
		o.Hooks.Filling(makeLock(o.Appliance.Spec.Platform, c.sets, c.images).Totals())
	}
	if err := client.FillRoot(ctx, store, c.images, o.Hooks.Read); err != nil {
		return lock, made, err
	}
	lock = makeLock(o.Appliance.Spec.Platform, c.sets, c.images)
	if err := addOwn(store, lock, c); err != nil {
		return lock, made, err
	}
	if err := store.AddFile(nodeProgram, 0o755, c.binary); err != nil {
		return lock, made, err
	}
	if err := store.Close(); err != nil {
		return lock, made, err
	}
	size, err := artifact.FolderSize(s.Path(artifact.StoreDir))
	return lock, stored{name: artifact.StoreDir, size: size}, err
}
