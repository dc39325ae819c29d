package builder

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrMoved says that an input has another image under a tag than the lock, and none has
// that of the lock.
var ErrMoved = errors.New("tag is not what the lock says")

// provide has the client read the images from this machine, and makes sets of
// them. What is missing of any of them is found now.
func (in *inputs) provide(ctx context.Context, client *storage.Client, locked lockedTags) error {
	var all []pinset.Image
	var errs []error
	for _, a := range in.material.Local {
		var images []pinset.Image
		for _, l := range a.Images {
			tag := l.Name.TagName()
			found, err := locked.image(tag, l.Found)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			img := pinset.Image{Repository: l.Name.Repository, Digest: found.Digest}
			client.Provide(img, found)
			if tag != "" {
				in.tags[img] = insert(in.tags[img], tag)
			}
			images = append(images, img)
		}
		in.add(a.Group, a.Origin, images)
		all = append(all, images...)
	}
	_, err := client.Resolve(ctx, pinset.Union(pinset.Set{Images: all}), nil) // an image may have several names
	return errors.Join(append(errs, err)...)
}

// lockedTags find what tags stand for in the lock, in all inputs of this machine.
type lockedTags struct {
	tags   map[string]pinset.Image
	images map[digest.Digest]storage.Found
	// inputs have one image each, which stands for all that are in the same place.
	inputs []storage.Found
}

func (in *inputs) locked(lock pinset.Lock) lockedTags {
	locked := lockedTags{tags: lock.ByTag(), images: map[digest.Digest]storage.Found{}}
	for _, a := range in.material.Local {
		for _, l := range a.Images {
			locked.images[l.Found.Digest] = l.Found
		}
		locked.inputs = append(locked.inputs, a.Images[0].Found)
	}
	return locked
}

// image is what a tag stands for in the lock; one that the lock does not have is what was
// found.
func (l lockedTags) image(tag string, found storage.Found) (storage.Found, error) {
	img, ok := l.tags[tag]
	if !ok {
		return found, nil
	}
	if held, ok := found.At(img.Digest); ok {
		return held, nil
	}
	if held, ok := l.images[img.Digest]; ok {
		return held, nil
	}
	for _, one := range l.inputs {
		if held, ok := one.At(img.Digest); ok {
			return held, nil
		}
	}
	return found, fmt.Errorf("%s: %w: it is %s in %s, and no input has %s, which the lock has",
		tag, ErrMoved, found.Digest, found.Origin(), img.Digest)
}
