package lint

import (
	"cmp"
	"errors"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/pinset"
)

// set checks a PinnedImageSet: whether the cluster's API accepts it, and whether the store has
// every image under exactly the name of the pin.
func (l *linter) set(raw source.RawSet) {
	if !pinset.ValidName(raw.Name.Text) {
		l.add(raw.Name, "set-name", "use only lower-case letters, digits, - and .",
			"the cluster's API refuses metadata.name %q of a set", raw.Name.Text)
	}
	if len(raw.Images) == 0 {
		l.add(raw.List, "set-size", "list at least one image under spec.pinnedImages, or leave the set out",
			"set %q has no images", raw.Name.Text)
	}
	set, places := pinset.Set{Name: raw.Name.Text}, map[pinset.Image]source.Field{}
	for _, field := range raw.Images {
		img, err := pinset.ParseImage(field.Text)
		if err != nil {
			l.badPin(field, err)
			continue
		}
		if _, ok := places[img]; ok {
			set.Duplicates = append(set.Duplicates, img)
		} else {
			set.Images = append(set.Images, img)
		}
		places[img] = field
		if l.store.locked && !l.store.pins[img] {
			l.add(field, "not-in-lock", l.store.fix(pinset.Reference{Repository: img.Repository, Digest: img.Digest}),
				"the lock has no %s", img)
		}
	}
	for _, o := range set.Violations() {
		l.add(cmp.Or(places[o.Image], raw.List), o.Rule, setFix(o.Rule), "%s", o.Text)
	}
}

// badPin reports why CRI-O finds no image of a name in the store.
func (l *linter) badPin(at source.Field, err error) {
	ref, _, badName := pinset.Expand(at.Text)
	pin := ref.Repository + "@sha256:…"
	if locked, ok := l.store.tags[ref.TagName()]; ok {
		pin = locked.String()
	} else if ref.Digest != "" {
		pin = pinset.Image{Repository: ref.Repository, Digest: ref.Digest}.String()
	}
	switch {
	case badName != nil:
		l.add(at, "bad-name", "write it as registry/path@sha256:…", "%v", err)
	case errors.Is(err, pinset.ErrShortName):
		l.add(at, "short-name", "write "+pin, "%s is not a full name, and CRI-O pins only full names", at.Text)
	case ref.Digest != "":
		l.add(at, "tag-and-digest", "write "+pin, "%s has a tag and a digest, and CRI-O does not pin such a name", at.Text)
	default:
		l.add(at, "tag", "write "+pin, "%s is a tag, and a set takes only digests", at.Text)
	}
}

// setFix is the fix for an objection of the cluster's API to a set.
func setFix(rule string) string {
	switch rule {
	case "set-size":
		return "split the set"
	case "set-twice":
		return "leave it out here"
	}
	return "copy the image to a name that the API accepts, or pass the set to pinbox-node, which accepts it"
}
