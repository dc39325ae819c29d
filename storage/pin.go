package storage

import (
	"context"
	"fmt"

	"github.com/pinbox/pinbox/storage/pinset"
)

// ResolveReferences returns the images that the references name at present, in the same order. It
// requests only tags: a reference with a digest needs no request. pinned is called after each
// reference, from several goroutines; it may be nil.
func (c *Client) ResolveReferences(
	ctx context.Context, refs []pinset.Reference, pinned func(),
) ([]pinset.Image, error) {
	return each(ctx, c.resolving(), refs, func(ctx context.Context, ref pinset.Reference) (pinset.Image, error) {
		img, err := c.pin(ctx, ref)
		if err != nil {
			return img, fmt.Errorf("resolve %s: %w", ref, err)
		}
		if pinned != nil {
			pinned()
		}
		return img, nil
	})
}

func (c *Client) pin(ctx context.Context, ref pinset.Reference) (pinset.Image, error) {
	img := pinset.Image{Repository: ref.Repository, Digest: ref.Digest}
	if img.Digest != "" {
		c.remote.noteTag(img, ref.Tag)
		return img, nil
	}
	_, d, err := c.remote.pin(ctx, ref.Repository, ref.Tag)
	if err != nil {
		return img, classify(ctx, err)
	}
	img.Digest = d
	c.remote.noteTag(img, ref.Tag)
	return img, nil
}

func (s *sources) noteTag(img pinset.Image, tag string) {
	if tag == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tags[img] = tag
}
