package lint

import (
	"fmt"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// store has the images of a node, according to the lock.
type store struct {
	locked bool
	tags   map[string]pinset.Image
	pins   map[pinset.Image]bool
	// volumes are the images of image volumes.
	volumes map[pinset.Image]bool
	// content has the images by each of their digests.
	content map[digest.Digest][]pinset.Image
	// paths has the images by their repositories.
	paths map[string][]pinset.Image
}

func newStore(lock pinset.Lock) store {
	s := store{
		locked:  lock.Version > 0,
		tags:    lock.ByTag(),
		pins:    map[pinset.Image]bool{},
		volumes: map[pinset.Image]bool{},
		content: map[digest.Digest][]pinset.Image{},
		paths:   map[string][]pinset.Image{},
	}
	for _, locked := range lock.Images {
		img, err := pinset.ParseImage(locked.Pin)
		if err != nil {
			continue // no build writes such a pin, and no node finds it
		}
		s.pins[img], s.volumes[img] = true, locked.Volume
		s.paths[img.Repository] = append(s.paths[img.Repository], img)
		s.content[img.Digest] = append(s.content[img.Digest], img)
		if locked.Manifest != img.Digest { // the pin names an index
			s.content[locked.Manifest] = append(s.content[locked.Manifest], img)
		}
	}
	for _, a := range lock.Artifacts {
		if img, err := pinset.ParseImage(a.Pin); err == nil {
			s.pins[img], s.volumes[img] = true, true // CRI-O mounts them where they are
			s.paths[img.Repository] = append(s.paths[img.Repository], img)
			s.content[img.Digest] = append(s.content[img.Digest], img)
		}
	}
	return s
}

// volume reports whether the lock has the image as an image volume, which nodes can copy.
func (s store) volume(ref pinset.Reference) bool {
	if ref.Digest == "" {
		return s.volumes[s.tags[ref.TagName()]]
	}
	img, ok := s.byDigest(ref)
	return ok && s.volumes[img]
}

// has reports whether a container finds the image in the store. CRI-O ignores a tag with a digest,
// and accepts both digests of an image in the repository: the digest of the index, and the digest
// of the manifest for the platform.
func (s store) has(ref pinset.Reference) bool {
	if ref.Digest == "" {
		_, ok := s.tags[ref.TagName()]
		return ok
	}
	img, ok := s.byDigest(ref)
	return ok && img.Repository == ref.Repository
}

// byDigest finds an image with the digest, preferably in the repository.
func (s store) byDigest(ref pinset.Reference) (found pinset.Image, ok bool) {
	for _, img := range s.content[ref.Digest] {
		if !ok || img.Repository == ref.Repository {
			found, ok = img, true
		}
	}
	return found, ok
}

// fix is the fix for a name that the store does not have.
func (s store) fix(ref pinset.Reference) string {
	if img, ok := s.byDigest(ref); ok {
		return fmt.Sprintf("the store has it as %s: write that name", img)
	}
	if others := s.paths[ref.Repository]; len(others) == 1 {
		return fmt.Sprintf("add it to the appliance, or use what the store has: %s", others[0])
	}
	return "add it to the appliance, and rebuild that"
}
