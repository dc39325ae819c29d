package resolve

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrTagChanged says that a tag of an input differs from the lock, and no input has the locked image.
var ErrTagChanged = fault.New(fault.Input, "tag differs from the lock",
	"add the archive or the store that has it, or use the present image with --update")

// local makes sets of the images on this machine, which the client then reads from there. It reports all
// that is missing of them.
func (r *resolver) local(ctx context.Context) error {
	var all []pinset.Image
	var errs []error
	for _, input := range r.material.Local {
		var images []pinset.Image
		for _, l := range input.Images {
			tag := l.Name.TagName()
			found, err := r.locked.image(tag, l.Found)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			img := pinset.Image{Repository: l.Name.Repository, Digest: found.Digest}
			r.client.AddLocal(img, found)
			if tag != "" {
				r.addTag(img, tag)
			}
			images = append(images, img)
		}
		r.add(input.Group, input.Origin, images)
		all = append(all, images...)
	}
	r.takeAnyArchitecture(all)
	_, err := r.client.Resolve(ctx, pinset.Union(pinset.Set{Images: all}), nil) // an image may have several names
	return errors.Join(append(errs, err)...)
}

// lockedTags finds the images of a lock by their tags, in all inputs on this machine.
type lockedTags struct {
	tags   map[string]pinset.Image
	images map[digest.Digest]storage.LocalImage
	// inputs has one image of each input, through which its other images are found.
	inputs []storage.LocalImage
}

func newLockedTags(lock pinset.Lock, local []source.LocalImages) lockedTags {
	locked := lockedTags{tags: lock.ByTag(), images: map[digest.Digest]storage.LocalImage{}}
	for _, input := range local {
		for _, l := range input.Images {
			locked.images[l.Found.Digest] = l.Found
		}
		locked.inputs = append(locked.inputs, input.Images[0].Found)
	}
	return locked
}

// image returns the image that the tag has in the lock, or found if the lock does not have the tag.
func (l lockedTags) image(tag string, found storage.LocalImage) (storage.LocalImage, error) {
	img, ok := l.tags[tag]
	if !ok {
		return found, nil
	}
	if locked, ok := found.WithDigest(img.Digest); ok {
		return locked, nil
	}
	if locked, ok := l.images[img.Digest]; ok {
		return locked, nil
	}
	for _, input := range l.inputs {
		if locked, ok := input.WithDigest(img.Digest); ok {
			return locked, nil
		}
	}
	return found, fmt.Errorf("%s: %w: it is %s in %s; the lock has %s, which no input has",
		tag, ErrTagChanged, found.Digest, found.Path(), img.Digest)
}
