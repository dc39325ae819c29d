package look

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Find returns the image that a pin, a tag, a name, a digest or the beginning of a digest stands for. A pin or a tag is
// preferred to a name, and that to a digest. The error of what stands for none or for several names some.
func Find(images []pinset.LockedImage, text string) (img pinset.LockedImage, err error) {
	for _, is := range []func(pinset.LockedImage, string) bool{isPin, isName, isDigest} {
		var found []pinset.LockedImage
		for _, img := range images {
			if is(img, text) && !slices.ContainsFunc(found, func(f pinset.LockedImage) bool { return f.Config == img.Config }) {
				found = append(found, img)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return img, fault.New(fault.Input, fmt.Sprintf("%q stands for %d images", text, len(found)),
				"name one by its pin, such as "+strings.Join(first(found), ", "))
		}
	}
	hint := "`pinbox ls OUT` lists the images"
	if near := nearest(images, text); len(near) > 0 {
		hint = "do you mean " + strings.Join(near, ", ") + "? " + hint
	}
	return img, fault.New(fault.Input, fmt.Sprintf("no image is %q", text), hint)
}

func isPin(img pinset.LockedImage, text string) bool {
	return img.Pin == text || slices.Contains(img.Tags, text)
}

func isName(img pinset.LockedImage, text string) bool {
	repository, _, _ := strings.Cut(img.Pin, "@")
	return slices.Contains([]string{img.Name(), repository, path.Base(repository)}, text)
}

// isDigest takes as much of a digest as people copy, not two digits that may be a name misspelt.
func isDigest(img pinset.LockedImage, text string) bool {
	_, pinned, _ := strings.Cut(img.Pin, "@")
	digits := strings.TrimPrefix(text, "sha256:")
	return len(digits) >= 4 && slices.ContainsFunc(
		[]digest.Digest{digest.Digest(pinned), img.Index, img.Manifest, img.Config},
		func(d digest.Digest) bool { return strings.HasPrefix(string(d), "sha256:"+digits) })
}

// nearest are images whose names have the text in them, or else the one whose name is most like it.
func nearest(images []pinset.LockedImage, text string) []string {
	var having []pinset.LockedImage
	var names []string
	for _, img := range images {
		names = append(names, img.Name())
		if slices.ContainsFunc(append(img.Tags, img.Name(), img.Pin), func(name string) bool {
			return strings.Contains(strings.ToLower(name), strings.ToLower(text))
		}) {
			having = append(having, img)
		}
	}
	if name := spec.Nearest(text, names); len(having) == 0 && name != "" {
		return []string{name}
	}
	return first(having)
}

// first are the pins of a few images.
func first(images []pinset.LockedImage) (pins []string) {
	for _, img := range images[:min(len(images), 3)] {
		pins = append(pins, img.Pin)
	}
	return pins
}

// Image is an image as List shows it.
type Image struct {
	Name   string   `json:"name"`
	Pin    string   `json:"pin"`
	Digest string   `json:"digest"` // of the pin
	Tags   []string `json:"tags,omitempty"`
	ID     string   `json:"id"`
}

// List returns the images, in the order of their pins.
func (im *Images) List() []Image {
	all := []Image{}
	for _, img := range im.Images {
		_, pinned, _ := strings.Cut(img.Pin, "@")
		all = append(all, Image{img.Name(), img.Pin, pinned, img.Tags, img.Config.Encoded()})
	}
	return all
}
