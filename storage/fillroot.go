package storage

import (
	"context"
	"io"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
)

// FillGraphRoot writes the images into a graph root, each layer once, and sets the unpacked sizes,
// inodes and root attributes of the images' layers. It reads one layer at a time, since
// containers/storage unpacks each over its parent. read is called with the bytes of each part of a
// blob; it may be nil.
func (c *Client) FillGraphRoot(ctx context.Context, store *root.Store, images []Resolved, read func(int)) error {
	if read == nil {
		read = func(int) {}
	}
	from := &sharedSource{}
	defer func() { from.release() }()
	return addImages(images, store, func(
		img *Resolved, l pinset.LockedLayer, as compose.Layer,
	) (compose.LayerInfo, error) {
		if info, ok := store.Lookup(as); ok {
			return info, nil
		}
		if from.img.Image != img.Image {
			from.release()
			from = &sharedSource{client: c, img: *img, users: 1}
		}
		return store.AddLayer(ctx, as, limited(c, l, func(ctx context.Context) (io.ReadCloser, error) {
			src, err := from.open(ctx)
			if err != nil {
				return nil, err
			}
			return src.layer(ctx, l, nil, read)
		}))
	})
}
