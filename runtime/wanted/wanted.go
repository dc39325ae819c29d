package wanted

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Version is the version of the format of a record.
const Version = 1

// The most images of a record, and the most pods of an image: a report of them is small for an API.
const (
	maxImages = 200
	maxPods   = 5
)

// MaxAge is how long ago an image was last wanted that is still missed: a courier has come by then.
const MaxAge = 30 * 24 * time.Hour

// Image is an image that a pod wanted and the node did not have.
type Image struct {
	// Name is full, and has a digest or a tag.
	Name string `json:"name"`
	// Since and Last are when it was wanted first, and last.
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	// Times counts the attempts to pull it, and to start a container of it that must not be pulled.
	Times int `json:"times"`
	// Pods that wanted it, as NAMESPACE/NAME: the first ones that the kubelet has named.
	Pods []string `json:"pods,omitempty"`
}

// Record is what was found so far.
type Record struct {
	Version int `json:"version"`
	// Read is the time of the last line that was read.
	Read   time.Time `json:"read"`
	Images []Image   `json:"images"`
}

// add counts attempts to get an image. Of too many images, the one goes that was not wanted for the longest time.
func (r *Record) add(name, pod string, at time.Time, times int) {
	i := slices.IndexFunc(r.Images, func(img Image) bool { return img.Name == name })
	if i < 0 {
		if len(r.Images) >= maxImages {
			oldest := slices.MinFunc(r.Images, func(a, b Image) int { return a.Last.Compare(b.Last) })
			r.remove(oldest.Name)
		}
		i = len(r.Images)
		r.Images = append(r.Images, Image{Name: name, Since: at})
	}
	img := &r.Images[i]
	img.Last = at
	img.Times += times
	if pod != "" && len(img.Pods) < maxPods && !slices.Contains(img.Pods, pod) {
		img.Pods = append(img.Pods, pod)
	}
}

func (r *Record) remove(name string) {
	r.Images = slices.DeleteFunc(r.Images, func(img Image) bool { return img.Name == name })
}

// Missed are the images that are still missed, in the order of their names: those that the node does not have, and that
// were wanted of late.
func Missed(images []Image, has func(name string) bool, now time.Time) []Image {
	left := slices.DeleteFunc(slices.Clone(images), func(img Image) bool {
		return has(img.Name) || now.Sub(img.Last) > MaxAge
	})
	slices.SortFunc(left, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	return left
}

// FullName is the name by which CRI-O has an image, given the name of a container's image: with the digest if it has
// one, else with the tag. It is "" for what is no name. A name without a registry is taken for one of Docker Hub.
func FullName(text string) string {
	ref, _, err := pinset.Expand(text)
	if err != nil {
		return ""
	}
	if ref.Digest != "" {
		ref.Tag = ""
	}
	return ref.String()
}

// Check refuses what no record has.
func Check(images []Image) error {
	if len(images) > maxImages {
		return fmt.Errorf("%d images: more than %d", len(images), maxImages)
	}
	for _, img := range images {
		printable := !slices.ContainsFunc(img.Pods, func(pod string) bool { return !pinset.Printable(pod) })
		if FullName(img.Name) != img.Name || img.Times < 0 || len(img.Pods) > maxPods || !printable {
			return fmt.Errorf("image %q: %w", img.Name, errImage)
		}
	}
	return nil
}

// errImage is an entry that no pinbox writes.
var errImage = errors.New("no full name, negative numbers, or pods that are no names")
