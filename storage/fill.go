package storage

import (
	"context"
	"fmt"
	"io"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Fill writes the images into the store, each layer once, and fills in the
// unpacked sizes of their layers. read is called with the bytes of each part of a
// blob that arrived; it may be nil.
func (c *Client) Fill(ctx context.Context, store *compose.Store, images []Resolved, read func(int)) error {
	f := filler{Client: c, store: store, read: read}
	for i := range images {
		if err := f.add(ctx, &images[i]); err != nil {
			return fmt.Errorf("image %s: %w", images[i].Image, err)
		}
	}
	return nil
}

type filler struct {
	*Client
	store *compose.Store
	read  func(int)
}

func (f *filler) add(ctx context.Context, img *Resolved) error {
	var src *source // opened when the first layer is missing
	defer func() {
		if src != nil {
			_ = src.Close() // nothing was written to it
		}
	}()
	open := func(l pinset.LockedLayer) func(context.Context) (io.ReadCloser, error) {
		return func(ctx context.Context) (_ io.ReadCloser, err error) {
			if src == nil {
				if src, err = f.open(ctx, img.Image); err != nil {
					return nil, err
				}
			}
			return src.layer(ctx, l, f.read)
		}
	}
	top := ""
	for i := range img.Layers {
		l := &img.Layers[i]
		u, err := f.store.AddLayer(ctx, compose.Layer{Parent: top, Digest: l.Digest, Size: l.Size, MediaType: l.MediaType, DiffID: l.DiffID, Open: open(*l)})
		if err != nil {
			return err
		}
		l.UnpackedSize, l.Inodes, top = u.Size, u.Inodes, u.ID
	}
	f.store.AddImage(compose.Image{
		Names: append([]string{img.Pin}, img.Tags...), TopLayer: top, Index: img.Index, Manifest: img.Manifest, Config: img.Config, Signatures: img.Signatures, Created: img.Created,
	})
	return nil
}
