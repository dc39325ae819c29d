package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// ErrNoLayers says that the layers of a store cannot be read again.
var ErrNoLayers = fault.New(fault.Input, "layers can be read again from a squashfs only",
	"build it with spec.store.format squashfs, or leave out --deep")

// Layers reads all layers of the stores in folders or ISOs again and compares them with their DiffIDs. The
// error is release.ErrVerify if one differs. It returns how many it has read.
func Layers(ctx context.Context, names []string, hooks progress.Hooks) (n int, err error) {
	for _, name := range names {
		read, err := layersOf(ctx, name, hooks)
		if n += read; errors.Is(err, audit.ErrInvalid) || errors.Is(err, squashfs.ErrDamaged) {
			return n, failed(name, err)
		}
		if err != nil {
			return n, fmt.Errorf("%s: %w", name, err)
		}
	}
	return n, nil
}

func layersOf(ctx context.Context, name string, hooks progress.Hooks) (n int, err error) {
	r, err := release.Open(name, nil)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	store, err := r.Store()
	if err == nil && store == nil {
		err = ErrNoLayers
	}
	if err != nil {
		return 0, err
	}
	files, err := store.Files()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	if err := layout.Open(files).Layers(func(l layout.Layer) error {
		total += l.UncompressedSize
		return nil
	}); err != nil {
		return 0, err
	}
	blobs, err := audit.Blobs(files)
	if err != nil {
		return 0, err
	}
	for _, size := range blobs {
		total += size
	}
	hooks.Begin("read layers again", total)
	err = audit.Layers(ctx, files, func(l layout.Layer) {
		n++
		hooks.Add(int(l.UncompressedSize))
	})
	for d, size := range blobs {
		if err == nil {
			err = audit.Blob(ctx, files, d)
			hooks.Add(int(size))
		}
	}
	return n, err
}
