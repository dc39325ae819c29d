package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/registry"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// inRegistry finds the store of an artifact.
func inRegistry(ctx context.Context, source string, o Options) (s Store, err error) {
	_, pinned, err := registry.ParsePushed(source)
	if err != nil {
		return s, fmt.Errorf("%q: %w: %w", source, ErrName, err)
	}
	if !pinned && o.Keys.IsEmpty() {
		return s, fmt.Errorf("%s: %w", source, ErrTag)
	}
	artifact, err := o.Registry.OpenPushed(ctx, source)
	if err != nil {
		return s, fmt.Errorf("%s: %w", source, explain(ctx, err))
	}
	s.close = artifact.Close
	store, err := layout.FindPushedStore(artifact.Files)
	if err != nil {
		return s, fmt.Errorf("%s: %w", source, err)
	}
	if o.Digest != "" && o.Digest != store.Digest {
		return s, fmt.Errorf("%s: %w: its store is %s, not %s", source, ErrChanged, store.Digest, o.Digest)
	}
	s.Origin, s.Name, s.Digest, s.Size = source, store.Name, store.Digest, store.Size
	s.open = func(ctx context.Context, from int64) (io.ReadCloser, error) { return artifact.Open(ctx, store, from) }
	s.signatures = map[string][]byte{}
	for _, suffix := range layout.SignatureSuffixes() {
		i := slices.IndexFunc(artifact.Files, func(f layout.PushedFile) bool { return f.Name == store.Name+suffix })
		if i < 0 || artifact.Files[i].Size > signature.MaxSize {
			continue
		}
		if s.signatures[suffix], err = artifact.Text(ctx, artifact.Files[i]); err != nil {
			return s, fmt.Errorf("%s: %w", source, explain(ctx, err))
		}
	}
	return s, nil
}

// explain says which errors of a registry are those of a server that does not give a store.
func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, registry.ErrDigest):
		return fmt.Errorf("%w: %w", ErrChanged, err)
	case errors.Is(err, layout.ErrNotPushed):
		return err
	}
	return fmt.Errorf("%w: %w", fetch.ErrServer, err)
}
