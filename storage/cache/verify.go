package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Verify reads all entries, and removes those that are damaged, or not of the layer that their names
// say: the note of a pack is JSON with the fields digest and blob of its key. checked is called with the size of
// each entry, in bytes; it may be nil.
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
		// Packs of other versions cannot be read, nor can partial blobs be verified.
		switch {
		case e.isSealed():
			if c.checkSealed(e.Key) {
				fault = fmt.Errorf("%w: an entry with another seal", squashfs.ErrDamaged)
			}
		case strings.Contains(e.Encoding, "-v"+squashfs.PackVersion):
			fault = c.check(compressor, e.Key)
		}
		if fault != nil && !errors.Is(fault, squashfs.ErrDamaged) {
			return damaged, fault
		}
		if fault != nil {
			damaged = append(damaged, e)
			if err := c.Remove(e.Key); err != nil {
				return damaged, fmt.Errorf("%w; %w", fault, err)
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
		return nil // another process has removed it
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
	var of Key
	if err := json.Unmarshal(pack.Note, &of); err != nil {
		return pack.Damaged(fmt.Errorf("its note: %w", err))
	}
	if of.Encoding = k.Encoding; of != k {
		return pack.Damaged(fmt.Errorf("it is the pack of %s, not of %s", of.Digest, k.Digest))
	}
	return pack.Check()
}
