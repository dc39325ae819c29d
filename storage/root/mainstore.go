package root

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	cstorage "go.podman.io/storage"
	"go.podman.io/storage/types"

	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// MainStore is the store that CRI-O writes to, also while CRI-O runs: the library takes the same locks. It is
// opened without additional image stores, so a layer that one of these has is written all the same.
type MainStore struct {
	library cstorage.Store
	run     string
}

// OpenMain opens the main store at a graph root. The caller calls Close. Its run root is not CRI-O's: the library
// counts mounts there, and this store mounts nothing.
func OpenMain(graphRoot string) (*MainStore, error) {
	run, err := environment.TempDir("pinbox-main-store-*")
	if err != nil {
		return nil, err
	}
	library, err := getStore(types.StoreOptions{
		GraphRoot: graphRoot, RunRoot: run, GraphDriverName: "overlay",
		GraphDriverOptions: []string{"overlay.skip_mount_home=true"},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("containers/storage in %s: %w", graphRoot, err), os.RemoveAll(run))
	}
	return &MainStore{library, run}, nil
}

// Close ends the use of the store.
func (m *MainStore) Close() error {
	m.library.Free() // not Shutdown, which unmounts
	return errors.Join(Unmount(m.run), os.RemoveAll(m.run))
}

// PutLayer writes a layer of another store, over its parent, unless the store has it. files is the graph root of
// the other store. A layer that is not what its record says, or that was interrupted, does not stay.
func (m *MainStore) PutLayer(ctx context.Context, l layout.Layer, files fs.FS) error {
	if have, err := m.library.Layer(l.ID); err == nil && have.Flags["incomplete"] != true {
		return nil
	}
	r, w := io.Pipe()
	written := make(chan error)
	go func() {
		err := audit.WriteLayer(ctx, files, l, w)
		_ = w.CloseWithError(err) // io.EOF if it is nil
		written <- err
	}()
	_, _, err := m.library.PutLayer(l.ID, l.Parent, nil, "", false, &cstorage.LayerOptions{
		OriginalDigest: l.CompressedDigest, OriginalSize: &l.CompressedSize, UncompressedDigest: l.UncompressedDigest,
	}, r)
	_, drained := io.Copy(io.Discard, r) // the library may stop at the end of the archive
	_ = r.Close()
	failed := <-written
	switch {
	case errors.Is(err, cstorage.ErrDuplicateID): // another program has written it
		return nil
	case err == nil && failed != nil:
		err = m.library.DeleteLayer(l.ID)
	case err == nil:
		err = drained
	}
	if failed != nil { // the library only says that it could not read
		return errors.Join(failed, fault.Ignore(err, failed))
	}
	return err
}

// PutImage records an image of another store, whose layers the store has. files is the graph root of the other
// store. If the store has the image, it gets the names that it lacks.
func (m *MainStore) PutImage(i layout.Image, files fs.FS) error {
	options := cstorage.ImageOptions{CreationDate: i.Created, Digest: i.Digest}
	for _, key := range i.BigDataNames {
		content, err := audit.Document(files, i, key)
		if err != nil {
			return err
		}
		options.BigData = append(options.BigData, cstorage.ImageBigDataOption{
			Key: key, Data: content, Digest: i.BigDataDigests[key],
		})
	}
	_, err := m.library.CreateImage(i.ID, i.Names, i.TopLayer, i.Metadata, &options)
	if errors.Is(err, cstorage.ErrDuplicateID) {
		err = m.library.AddNames(i.ID, i.Names)
	}
	return err
}
