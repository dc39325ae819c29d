package pinset

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Component returns the name of the component of an OpenShift release that the image is; "" for none. The origins of
// such an image have release/VERSION/COMPONENT.
func (i LockedImage) Component() string {
	for _, from := range i.From {
		if parts := strings.Split(from, "/"); len(parts) == 3 && parts[0] == "release" {
			return parts[2]
		}
	}
	return ""
}

// Name returns the name by which people know the image: of the component, or else the last part of the repository with
// the first tag.
func (i LockedImage) Name() string {
	if c := i.Component(); c != "" {
		return c
	}
	repository, _, _ := strings.Cut(i.Pin, "@")
	name := repository[strings.LastIndexByte(repository, '/')+1:]
	if len(i.Tags) > 0 {
		if at := strings.LastIndexByte(i.Tags[0], ':'); at > strings.LastIndexByte(i.Tags[0], '/') {
			name += i.Tags[0][at:]
		}
	}
	return name
}

// pair finds the images of a repository that replace one another: those of a component, those of a tag, and then the
// only one of the repository that is left in both locks.
func pair(old, new Lock) (changed []Change) {
	was, is, had := old.pins(), new.pins(), old.blobs()
	gone := byRepository(old.Images, is)
	for repository, added := range byRepository(new.Images, was) {
		removed := gone[repository]
		for _, same := range []func(a, b LockedImage) bool{
			func(a, b LockedImage) bool { return a.Component() != "" && a.Component() == b.Component() },
			func(a, b LockedImage) bool {
				return slices.ContainsFunc(a.Tags, func(tag string) bool { return slices.Contains(b.Tags, tag) })
			},
			func(LockedImage, LockedImage) bool { return len(added) == 1 && len(removed) == 1 },
		} {
			added = slices.DeleteFunc(added, func(to LockedImage) bool {
				at := slices.IndexFunc(removed, func(from LockedImage) bool { return same(from, to) })
				if at < 0 {
					return false
				}
				changed = append(changed, change(removed[at], to, had))
				removed = slices.Delete(removed, at, at+1)
				return true
			})
		}
	}
	slices.SortFunc(changed, func(a, b Change) int { return strings.Compare(a.Name+a.New, b.Name+b.New) })
	return changed
}

// byRepository returns the images that are not among others.
func byRepository(images []LockedImage, others map[string]bool) map[string][]LockedImage {
	all := map[string][]LockedImage{}
	for _, img := range images {
		if repository, _, _ := strings.Cut(img.Pin, "@"); !others[img.Pin] {
			all[repository] = append(all[repository], img)
		}
	}
	return all
}

func change(from, to LockedImage, had map[digest.Digest]int64) Change {
	c := Change{Name: to.Name(), Old: from.Pin, New: to.Pin, Layers: len(to.Layers)}
	for _, l := range to.Layers {
		if _, there := had[l.Digest]; !there {
			c.NewLayers.add(l.Size)
		}
	}
	return c
}
