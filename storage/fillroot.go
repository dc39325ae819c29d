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
// containers/storage unpacks each over its parent. reading is called with how far the layer is that is
// read, and read with the bytes of each part of a blob; both may be nil.
func (c *Client) FillGraphRoot(
	ctx context.Context, store *root.Store, images []Resolved, reading func(Reading), read func(int),
) error {
	return addImages(images, store, func(
		img *Resolved, l *pinset.LockedLayer, as compose.Layer,
	) (compose.LayerInfo, error) {
		if info, ok := store.Lookup(as); ok {
			return info, nil
		}
		read, end := watch(reading, img.Image, l, read)
		defer end()
		return store.AddLayer(ctx, as, limited(c, l, func(ctx context.Context) (io.ReadCloser, error) {
			return c.openLayer(ctx, img.Image, l, fetching{read: read})
		}))
	})
}
