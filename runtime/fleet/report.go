package fleet

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/wanted"
)

// Report is the status of a NodeImageStatus: what a node reports of its images.
type Report struct {
	// Time of what it says.
	Time time.Time `json:"time"`
	// FirstSync is when the node first had the sets of the API and its own roles; zero if it follows no cluster.
	FirstSync time.Time `json:"firstSync,omitzero"`
	// Ready means that every image is on the node and pinned, and nothing else is wrong.
	Ready bool `json:"ready"`
	// Pools that the node follows, if the operator or a flag sets them.
	Pools []string `json:"pools,omitempty"`
	// Conditions are those of a MachineConfigNode.
	Conditions []runtime.Condition `json:"conditions"`
	Sets       []SetReport         `json:"sets"`
	Images     ImageCounts         `json:"images"`
	// Failures are the images with errors, by the class of the error.
	Failures []Failure `json:"failures"`
	// BytesToGo have to be fetched, and ETA is when they will be, at the speed so far; zero while that is unknown.
	BytesToGo int64     `json:"bytesToGo"`
	ETA       time.Time `json:"eta,omitzero"`
	// Space where images are pulled to, and where blobs are staged.
	Space []runtime.SpaceStatus `json:"space,omitempty"`
	// Errors that belong to no image.
	Errors []string `json:"errors"`
	// Kept are sets that the API has lost.
	Kept   []string      `json:"kept"`
	Stores []StoreReport `json:"stores"`
	// Wanted are images that pods wanted, and that neither the node nor its sets have.
	Wanted []wanted.Image `json:"wanted,omitempty"`
	// Owner of the drop-in, the version of the container runtime, and that of pinbox-node, or its digest.
	Owner   string `json:"owner"`
	Runtime string `json:"runtime"`
	Pinbox  string `json:"pinbox"`
}

// SetReport has the generations of a MachineConfigNode's pinnedImageSets. A set of a file has none.
type SetReport struct {
	Name                      string `json:"name"`
	Images                    int    `json:"images"`
	Pinned                    int    `json:"pinned"`
	Missing                   int    `json:"missing"`
	CurrentGeneration         int64  `json:"currentGeneration,omitempty"`
	DesiredGeneration         int64  `json:"desiredGeneration,omitempty"`
	LastFailedGeneration      int64  `json:"lastFailedGeneration,omitempty"`
	LastFailedGenerationError string `json:"lastFailedGenerationError,omitempty"`
}

// ImageCounts are the images of all sets by their state.
type ImageCounts struct {
	Total   int `json:"total"`
	Pinned  int `json:"pinned"`
	Present int `json:"present"`
	Pulling int `json:"pulling"`
	Missing int `json:"missing"`
	Unknown int `json:"unknown"`
}

// Failure is a class of errors, with the number of images that have one, and an example.
type Failure struct {
	Class  string `json:"class"`
	Images int    `json:"images"`
	Image  string `json:"image"`
	Error  string `json:"error"`
}

// StoreReport is an attached store.
type StoreReport struct {
	Slot    string `json:"slot"`
	Digest  string `json:"digest"`
	Name    string `json:"name,omitempty"`
	Release int64  `json:"release,omitempty"`
	State   string `json:"state"`
	Current bool   `json:"current,omitempty"`
	Error   string `json:"error,omitempty"`
}

const (
	// maxErrors is the most errors in a report, and maxErrorText the length of one, in bytes: 1,000 reports of nodes that
	// fail alike are to be small for etcd and for those who watch them.
	maxErrors, maxErrorText = 10, 1024
)

// NewReport makes a report of a status.
func NewReport(s runtime.Status) Report {
	r := Report{
		Time: s.Time, Space: s.Space, Pools: s.Pools,
		Ready: s.Healthy(), Conditions: slices.Clone(s.Conditions), Owner: string(s.Owner), Runtime: s.Runtime,
		Sets: []SetReport{}, Failures: []Failure{}, Errors: []string{}, Kept: []string{},
		Stores: []StoreReport{}, Wanted: s.Wanted,
	}
	if s.Program != nil {
		r.Pinbox = cmp.Or(s.Program.Running.Version, s.Program.Running.Digest.String())
	}
	for _, set := range s.Sets {
		r.Sets = append(r.Sets, setReport(set))
	}
	for _, img := range s.Images {
		r.count(img)
	}
	for _, text := range s.Errors[:min(len(s.Errors), maxErrors)] {
		r.Errors = append(r.Errors, short(text))
	}
	if s.Cluster != nil {
		r.FirstSync = s.Cluster.FirstSync
		r.Kept = append(r.Kept, s.Cluster.Kept...)
	}
	if s.Progress != nil {
		r.ETA = s.Progress.ETA
	}
	for _, store := range s.Stores {
		r.Stores = append(r.Stores, StoreReport{
			Slot: store.Slot, Digest: store.Digest, Name: store.Name, Release: store.Number, State: string(store.State),
			Current: store.Current, Error: short(store.Error),
		})
	}
	return r
}

// setReport keeps to the rules of a MachineConfigNode: no other generation is greater than the desired one.
func setReport(s runtime.SetStatus) SetReport {
	number := func(generation string) int64 {
		n, _ := strconv.ParseInt(generation, 10, 32) // the digest of a file is no number
		return n
	}
	r := SetReport{
		Name: s.Name, Images: s.Images, Pinned: s.Pinned, Missing: s.Missing, DesiredGeneration: number(s.DesiredGeneration),
	}
	if n := number(s.CurrentGeneration); n <= r.DesiredGeneration {
		r.CurrentGeneration = n
	}
	if n := number(s.LastFailedGeneration); n > 0 && n <= r.DesiredGeneration {
		r.LastFailedGeneration = n
	}
	if s.LastFailedGenerationError != "" {
		r.LastFailedGenerationError = short(s.LastFailedGenerationError)
	}
	return r
}

// count adds an image.
func (r *Report) count(img runtime.ImageStatus) {
	r.Images.Total++
	*map[runtime.State]*int{
		runtime.Pinned: &r.Images.Pinned, runtime.Present: &r.Images.Present, runtime.Pulling: &r.Images.Pulling,
		runtime.Missing: &r.Images.Missing, runtime.Unknown: &r.Images.Unknown,
	}[img.State]++
	r.BytesToGo += img.Bytes
	if img.Error == "" {
		return
	}
	i := slices.IndexFunc(r.Failures, func(f Failure) bool { return f.Class == string(img.ErrorClass) })
	if i < 0 {
		i = len(r.Failures)
		r.Failures = append(r.Failures, Failure{Class: string(img.ErrorClass), Image: img.Name, Error: short(img.Error)})
	}
	r.Failures[i].Images++
}

// Same reports whether two reports say the same. What changes while nothing happens does not count: the times, the
// space, and further attempts to get what is missing.
func (r Report) Same(other Report) bool {
	r.Time, r.ETA, r.Space = other.Time, other.ETA, other.Space
	r.Wanted, other.Wanted = withoutTimes(r.Wanted), withoutTimes(other.Wanted)
	return reflect.DeepEqual(r, other)
}

func withoutTimes(images []wanted.Image) (same []wanted.Image) {
	for _, img := range images {
		same = append(same, wanted.Image{Name: img.Name, Pods: img.Pods})
	}
	return same
}

// Pulling reports whether a pass is at work.
func (r Report) Pulling() bool {
	return slices.ContainsFunc(r.Conditions, func(c runtime.Condition) bool {
		return c.Type == runtime.ProgressingCondition && c.Status == "True"
	})
}

func short(text string) string { return text[:min(len(text), maxErrorText)] }
