package verify

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// ErrNoLayers says that the layers of a store cannot be read again.
var ErrNoLayers = fault.New(fault.Input, "layers can be read again from a squashfs only",
	"build it with spec.store.format squashfs, or leave out --deep")

// Layers reads all layers of the stores in folders or ISOs again and compares them with their DiffIDs. The
// error is artifact.ErrVerify if one differs. It returns how many it has read.
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
	store, err := artifact.FindStore(name)
	if err != nil {
		return 0, err
	}
	if store.File == "" {
		return 0, ErrNoLayers
	}
	f, err := input.Medium(store.File)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	files, err := squashfs.OpenImage(io.NewSectionReader(f, store.Offset, store.Size), store.Size)
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
