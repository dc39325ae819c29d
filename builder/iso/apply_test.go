package iso

import (
	"context"
	"errors"
)

// Apply opens a base and writes an edited copy of it.
func Apply(ctx context.Context, base, out string, e Edit) error {
	b, err := OpenBase(base)
	if err != nil {
		return err
	}
	return errors.Join(b.Apply(ctx, out, e), b.Close())
}
