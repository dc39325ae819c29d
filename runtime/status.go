// Package runtime looks after the pinned images of a living node.
package runtime

import (
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// State of an image on the node.
type State string

// An image is missing, or in a store, or there and pinned.
const (
	Missing State = "missing"
	Present State = "present"
	Pinned  State = "pinned"
)

// Status is what the node says of its sets.
type Status struct {
	Time time.Time `json:"time"`
	// Runtime is the name and version of the container runtime.
	Runtime    string        `json:"runtime"`
	Conditions []Condition   `json:"conditions"`
	Sets       []SetStatus   `json:"sets"`
	Images     []ImageStatus `json:"images"`
	// Errors of files: sets that cannot be read, a configuration that is against us.
	Errors []string `json:"errors,omitempty"`
}

// Condition in the words of a MachineConfigNode.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// SetStatus is how many images of a set are in which state.
type SetStatus struct {
	Name    string `json:"name"`
	Images  int    `json:"images"`
	Pinned  int    `json:"pinned"`
	Missing int    `json:"missing"`
	// Error names the images that are not there, or not pinned.
	Error string `json:"error,omitempty"`
}

// ImageStatus is the state of an image, and who asks for it.
type ImageStatus struct {
	Name  string   `json:"name"`
	State State    `json:"state"`
	Sets  []string `json:"sets"`
}

// Condition types, reasons and messages of the Machine Config Operator:
// pkg/daemon/pinned_image_set.go.
const (
	progressing = "PinnedImageSetsProgressing"
	degraded    = "PinnedImageSetsDegraded"
)

// Judge compares the sets with what the runtime has: image by image, present
// and pinned or not. problems are what else is wrong: with the files of the sets, or of CRI-O.
func Judge(sets []pinset.Set, present map[pinset.Image]bool, problems error) Status {
	s := Status{Sets: []SetStatus{}, Images: []ImageStatus{}}
	for _, img := range pinset.Union(sets...) {
		s.Images = append(s.Images, ImageStatus{Name: img.String(), State: state(img, present)})
	}
	for _, set := range sets {
		count := SetStatus{Name: set.Name, Images: len(set.Images)}
		for _, img := range set.Images {
			i, _ := slices.BinarySearchFunc(s.Images, img.String(), func(a ImageStatus, name string) int { return strings.Compare(a.Name, name) })
			s.Images[i].Sets = append(s.Images[i].Sets, set.Name)
			count.add(s.Images[i])
		}
		s.Sets = append(s.Sets, count)
	}
	if problems != nil {
		s.Errors = strings.Split(problems.Error(), "\n")
	}
	healthy := problems == nil && !slices.ContainsFunc(s.Images, func(i ImageStatus) bool { return i.State != Pinned })
	s.Conditions = conditions(healthy)
	return s
}

func (s *SetStatus) add(img ImageStatus) {
	problem := ""
	switch img.State {
	case Pinned:
		s.Pinned++
		return
	case Missing:
		s.Missing++
		problem = img.Name + " is not on the node"
	default:
		problem = img.Name + " is not pinned"
	}
	if s.Error != "" {
		s.Error += "; "
	}
	s.Error += problem
}

func state(img pinset.Image, present map[pinset.Image]bool) State {
	pinned, ok := present[img]
	switch {
	case pinned:
		return Pinned
	case ok:
		return Present
	}
	return Missing
}

func conditions(healthy bool) []Condition {
	if healthy {
		return []Condition{
			{progressing, "False", "AsExpected", "All pinned image sets complete"},
			{degraded, "False", "AsExpected", "All is good"},
		}
	}
	return []Condition{
		{progressing, "False", "PrefetchFailed", "Not all pinned image sets are complete"},
		{degraded, "True", "PrefetchFailed", "One or more PinnedImageSet is experiencing an error. See PinnedImageSet list for more details."},
	}
}

// Healthy says that every image is there and pinned.
func (s Status) Healthy() bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool { return c.Type == degraded && c.Status == "False" })
}
