package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Verify reads all that is kept, and removes what is damaged. checked is called with
// the bytes of each entry; it may be nil.
func (c Cache) Verify(ctx context.Context, checked func(int64)) (damaged []Entry, err error) {
	all, err := c.Entries()
	if err != nil {
		return nil, err
	}
	compressor, err := squashfs.NewCompressor(squashfs.Options{Workers: 1})
	if err != nil {
		return nil, err
	}
	defer compressor.Close()
	for _, e := range all {
		if ctx.Err() != nil {
			return damaged, ctx.Err()
		}
		fault := error(nil)
		if strings.Contains(e.Encoding, "-v"+squashfs.PackVersion) { // others nobody can read, or only with their rest
			fault = c.check(compressor, e.Key)
		}
		if fault != nil && !errors.Is(fault, squashfs.ErrDamaged) {
			return damaged, fault
		}
		if fault != nil {
			damaged = append(damaged, e)
			if err := c.Remove(e.Key); err != nil {
				return damaged, fmt.Errorf("%w; and it cannot be removed: %w", fault, err)
			}
		}
		if checked != nil {
			checked(e.Size)
		}
	}
	return damaged, nil
}

func (c Cache) check(compressor *squashfs.Compressor, k Key) error {
	f, err := c.open(k)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed in the meantime
	}
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	pack, err := compressor.OpenPack(f, fi.Size())
	if err != nil {
		return err
	}
	return pack.Check()
}
