package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What can be wrong with the name of an image on this machine.
var (
	ErrNameless    = errors.New("image has no full name")
	ErrNoSuchImage = errors.New("has no image")
	ErrMoved       = errors.New("tag is not what the lock says")
)

// local is an image that was found, and what it is to be called.
type local struct {
	name  pinset.Reference
	found storage.Found
}

// layout lists the images of a folder, and says what is wrong with their names.
func layout(l spec.LocalImages) ([]local, error) {
	found, err := storage.Layout(l.Path)
	if err != nil {
		return nil, err
	}
	return named(l, found)
}

// archive does so with a file, which the caller closes.
func archive(ctx context.Context, l spec.LocalImages, tmp string) ([]local, io.Closer, error) {
	found, file, err := storage.Archive(ctx, l.Path, tmp)
	if err != nil {
		return nil, nil, err
	}
	all, err := named(l, found)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return all, file, nil
}

func named(l spec.LocalImages, found []storage.Found) (all []local, err error) {
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w: no image in it", l.Path, storage.ErrLocal)
	}
	if l.Name != "" && len(found) > 1 {
		return nil, fmt.Errorf("%s: %w: there are %d images in it, and one name, %s, given", l.Path, ErrNameless, len(found), l.Name)
	}
	for _, f := range found {
		given := cmp.Or(l.Name, f.Name)
		if given == "" {
			return nil, fmt.Errorf("%s: %w", l.Path, ErrNameless)
		}
		name, err := pinset.ParseReference(given)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", l.Path, ErrNameless, err)
		}
		name.Digest = "" // that of the layout counts
		all = append(all, local{name, f})
	}
	return all, nil
}

// storedImages finds those that are asked for.
func storedImages(c spec.ContainersStorage) ([]local, error) {
	path := cmp.Or(c.Path, defaultStore())
	store, err := storage.OpenImageStore(path)
	if err != nil {
		return nil, err
	}
	found := store.Images()
	if len(c.Images) > 0 {
		for _, name := range c.Images {
			if !slices.ContainsFunc(found, func(f storage.Found) bool { return f.Name == name }) {
				return nil, fmt.Errorf("image store %s: %w %s; it has %s", path, ErrNoSuchImage, name, namesOf(found))
			}
		}
		found = slices.DeleteFunc(found, func(f storage.Found) bool { return !slices.Contains(c.Images, f.Name) })
	}
	return named(spec.LocalImages{Path: path}, found)
}

// defaultStore is where podman has its store: containers-storage.conf(5).
func defaultStore() string {
	if os.Geteuid() == 0 {
		return "/var/lib/containers/storage"
	}
	return filepath.Join(cmp.Or(os.Getenv("XDG_DATA_HOME"), filepath.Join(environment.Home(), ".local/share")), "containers/storage")
}

// namesOf lists a few names, for those who have misspelt one.
func namesOf(found []storage.Found) string {
	const some = 10
	var names []string
	for _, f := range found {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	if len(names) > some {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:some], ", "), len(names)-some)
	}
	return cmp.Or(strings.Join(names, ", "), "none with a name")
}

func openStores(paths []string) (stores []*storage.ImageStore, err error) {
	for _, path := range paths {
		store, err := storage.OpenImageStore(path)
		if err != nil {
			return nil, err
		}
		stores = append(stores, store)
	}
	return stores, nil
}

// provide has the client read the images from this machine, and makes sets of
// them. What is missing of any of them is found now.
func (in *inputs) provide(ctx context.Context, client *storage.Client, locked lockedTags) error {
	var all []pinset.Image
	var errs []error
	for _, a := range in.locals {
		var images []pinset.Image
		for _, l := range a.images {
			tag := l.name.TagName()
			found, err := locked.image(tag, l.found)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			img := pinset.Image{Repository: l.name.Repository, Digest: found.Digest}
			client.Provide(img, found)
			if tag != "" {
				in.tags[img] = insert(in.tags[img], tag)
			}
			images = append(images, img)
		}
		in.add(a.asked, images)
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
	for _, a := range in.locals {
		for _, l := range a.images {
			locked.images[l.found.Digest] = l.found
		}
		locked.inputs = append(locked.inputs, a.images[0].found)
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
	return found, fmt.Errorf("%s: %w: it is %s in %s, and no input has %s, which the lock has", tag, ErrMoved, found.Digest, found.Origin(), img.Digest)
}
