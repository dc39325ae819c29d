package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// PackOptions has the compressor for packs and the folders for them.
type PackOptions struct {
	Compressor *squashfs.Compressor
	// Cache has the packs of earlier builds, and gets the new ones.
	Cache cache.Cache
	// Tmp is a folder for temporary files.
	Tmp string
	// Reading is called with how far the layers are that are read, from several goroutines; it may be nil.
	Reading func(Reading)
}

// Fill writes the images into the store: each layer that the store lacks, once. It sets the
// unpacked sizes, inodes and root attributes of the images' layers. It reads several layers at a
// time, but none whose pack is in the cache, and continues what FetchEarly began. read is called with
// the bytes of each part of a blob, from several goroutines; it may be nil.
func (c *Client) Fill(
	ctx context.Context, store *compose.Store, images []Resolved, p PackOptions, read func(int),
) error {
	f := c.early.take()
	if f == nil {
		f = newFetcher(ctx, c, p)
	}
	defer f.stop()
	f.fetchAll(images, store, read)
	err := addImages(images, store, func(_ *Resolved, l *pinset.LockedLayer, as compose.Layer) (compose.LayerInfo, error) {
		if info, ok := store.Lookup(as); ok {
			return info, nil
		}
		pack, size, err := f.take(l)
		if err != nil {
			return compose.LayerInfo{}, err
		}
		info, err := store.AddLayer(as, pack, size)
		if err != nil || compose.Shelves(size) {
			_ = pack.Close() // it was only read
		}
		return info, err
	})
	if err != nil {
		f.stop()
		f.drop()
	}
	// Return the first failure, not the errors that it caused.
	if failed := f.wait(); failed != nil && (err == nil || !errors.Is(failed, context.Canceled)) {
		err = failed
	}
	f.closePacks()
	return err
}

// AddRecords adds the records of images to a store that has none of their layers: that of a thin delta.
func AddRecords(store *compose.Store, images []Resolved) error {
	return addImages(images, store, func(
		_ *Resolved, l *pinset.LockedLayer, as compose.Layer,
	) (compose.LayerInfo, error) {
		return compose.LayerInfo{
			ID: layout.LayerID(as.Parent, l.DiffID), Size: l.UnpackedSize, Inodes: l.Inodes, RootAttributes: l.RootAttributes,
		}, nil
	})
}

// imageAdder is a store that records images.
type imageAdder interface{ AddImage(compose.Image) }

// addImages adds layers, by the function add, and images to a store, in the order of the images.
func addImages(
	images []Resolved, store imageAdder,
	add func(*Resolved, *pinset.LockedLayer, compose.Layer) (compose.LayerInfo, error),
) error {
	var filled pinset.Shared
	for i := range images {
		img := &images[i]
		top, layers := "", make([]*pinset.LockedLayer, len(img.Layers))
		for n, l := range img.Layers {
			u, err := add(img, l, compose.Layer{
				Parent: top, Digest: l.Digest, Size: l.Size, MediaType: l.MediaType, DiffID: l.DiffID,
			})
			if err != nil {
				return fmt.Errorf("image %s: %w", img.Image, err)
			}
			now := *l
			now.UnpackedSize, now.Inodes, now.RootAttributes, top = u.Size, u.Inodes, u.RootAttributes, u.ID
			layers[n] = &now
		}
		copy(img.Layers, filled.Layers(layers))
		index, manifest, config, err := img.documents()
		if err != nil {
			return fmt.Errorf("image %s: %w", img.Image, err)
		}
		store.AddImage(compose.Image{
			Names: append([]string{img.Pin}, img.Tags...), TopLayer: top, Index: index, Manifest: manifest,
			Config: config, Signatures: img.Signatures, Created: img.Created,
		})
	}
	return nil
}
