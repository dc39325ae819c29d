package runtime

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// State of an image on the node.
type State string

// An image is missing, being pulled, in a store, or in a store and pinned; or its state is
// unknown, since CRI-O does not answer.
const (
	Unknown State = "unknown"
	Missing State = "missing"
	Pulling State = "pulling"
	Present State = "present"
	Pinned  State = "pinned"
)

// StatusVersion is the version of the format of the status.
const StatusVersion = 1

// Status is the state of the sets of a node: status.json.
type Status struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	Node    string    `json:"node"`
	// Runtime is the name and version of the container runtime.
	Runtime string `json:"runtime"`
	// Owner of the drop-in that pins the images: pinbox, or mco.
	Owner Owner `json:"owner"`
	// Pools that the node follows; none means every set.
	Pools []string `json:"pools,omitempty"`
	// Cluster is what the node knows of the sets of its cluster; nil if it follows none.
	Cluster    *ClusterStatus `json:"cluster,omitempty"`
	Conditions []Condition    `json:"conditions"`
	Sets       []SetStatus    `json:"sets"`
	Images     []ImageStatus  `json:"images"`
	// Releases that the node keeps, the current one first.
	Releases []ReleaseStatus `json:"releases,omitempty"`
	// Stores that were attached to the node.
	Stores []StoreStatus `json:"stores,omitempty"`
	// OwnStore is how the appliance's own store is verified; nil if none is mounted.
	OwnStore *VerityStatus `json:"ownStore,omitempty"`
	// Program says which pinbox-node runs, and which one follows; nil if both are unknown.
	Program *ProgramStatus `json:"program,omitempty"`
	// StoreImages are the images of read-only stores that no set has.
	StoreImages []StoreImage `json:"storeImages,omitempty"`
	// SetAside are images of CRI-O's own store that were taken out of it, until a store with the layers below them is
	// attached: with them, CRI-O would list no image.
	SetAside []StoreImage `json:"setAside,omitempty"`
	// Unpinned are images on the node that no set has any more.
	Unpinned []string `json:"unpinned,omitempty"`
	// LatePulls are images that were unpinned before they were on the node, and when: CRI-O may still finish a pull of
	// theirs, and then they are Unpinned.
	LatePulls map[string]time.Time `json:"latePulls,omitempty"`
	// Wanted are images that pods wanted, and that neither the node nor its sets have.
	Wanted []wanted.Image `json:"wanted,omitempty"`
	// ReloadDue means that CRI-O may not have read the drop-in since it was written.
	ReloadDue bool `json:"reloadDue,omitempty"`
	// Progress of the running pulls.
	Progress *Progress `json:"progress,omitempty"`
	// Space of the file system that images are pulled to, and of that where blobs are staged, if it is another one.
	Space  []SpaceStatus `json:"space,omitempty"`
	Totals Totals        `json:"totals,omitzero"`
	// Errors that do not belong to a single image: a set that cannot be read, too little
	// space, a configuration that conflicts with the pins.
	Errors []string `json:"errors,omitempty"`
	// Warnings are what may keep pods from starting although every image is pinned, and settings without effect.
	Warnings []string `json:"warnings,omitempty"`
}

// ProgramStatus names the pinbox-node of a node. Where somebody else installs the program, there is only Running.
type ProgramStatus struct {
	// Running made the last pass. While pinbox-node.service runs, that is its program; zero before the first pass.
	Running pinset.Program `json:"running,omitzero"`
	// Current is the one of the current release, which the units install before they start.
	Current pinset.Program `json:"current,omitzero"`
	// Own is the one in the appliance's own store.
	Own pinset.Program `json:"own,omitzero"`
}

// DecodeStatus reads a status. Unknown fields, other versions, and values that no pass writes are
// errors; the error names the entry and the field.
func DecodeStatus(r io.Reader) (s Status, err error) {
	err = pinset.Decode(r, StatusVersion, &s)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return Status{}, fmt.Errorf("status of the node: %w", err)
	}
	return s, nil
}

// Owner of the drop-in that pins images.
type Owner string

// On a node that the Machine Config Operator manages, it writes the drop-in.
const (
	Pinbox Owner = "pinbox"
	MCO    Owner = "mco"
)

// Condition is a condition as in a MachineConfigNode.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// SetStatus counts the images of a set by their state, and has the generations of a
// MachineConfigNode's pinnedImageSets. A set that does not come from a cluster has no generation:
// the hash of its content is used instead.
type SetStatus struct {
	Name    string `json:"name"`
	Images  int    `json:"images"`
	Pinned  int    `json:"pinned"`
	Missing int    `json:"missing"`
	// CurrentGeneration is the last generation whose images were all pinned.
	CurrentGeneration string `json:"currentGeneration,omitempty"`
	DesiredGeneration string `json:"desiredGeneration"`
	// LastFailedGeneration is set while an error keeps the set from being complete.
	LastFailedGeneration      string `json:"lastFailedGeneration,omitempty"`
	LastFailedGenerationError string `json:"lastFailedGenerationError,omitempty"`
	// Store is the one that the set names, and StoreError why it was not attached when images were missing: then they
	// are pulled.
	Store      string `json:"store,omitempty"`
	StoreError string `json:"storeError,omitempty"`
}

// Ready reports that every image of the set is on the node and pinned.
func (s SetStatus) Ready() bool { return s.Pinned == s.Images && s.LastFailedGeneration == "" }

// ImageStatus is the state of an image, the sets that ask for it, and what is wrong with it.
type ImageStatus struct {
	Name  string   `json:"name"`
	State State    `json:"state"`
	Sets  []string `json:"sets"`
	// Bytes of its blobs that have to be fetched, while it is missing.
	Bytes      int64  `json:"bytes,omitempty"`
	ErrorClass Class  `json:"errorClass,omitempty"`
	Error      string `json:"error,omitempty"`
}

// Progress of a pass: images pulled and bytes fetched, with the totals.
type Progress struct {
	Images   int   `json:"images"`
	OfImages int   `json:"ofImages"`
	Bytes    int64 `json:"bytes"`
	OfBytes  int64 `json:"ofBytes"`
	// ETA is when it will be done at the speed so far; zero while that is unknown.
	ETA time.Time `json:"eta,omitzero"`
}

// SpaceStatus is the space of a file system in bytes; what is reserved for root is not free.
type SpaceStatus struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Free  int64  `json:"free"`
}

// Totals are sums over the passes since the node has booted.
type Totals struct {
	// PulledBytes were fetched: the blobs of the images whose sizes a lock or a registry had.
	PulledBytes int64 `json:"pulledBytes,omitempty"`
	// PullFailures are attempts to pull an image that have failed, by the class of the error.
	PullFailures map[Class]int64 `json:"pullFailures,omitempty"`
	// LastSuccess is when a pass last found every image on the node and pinned, and nothing else wrong.
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
}

// failed counts an attempt. Earlier copies of the totals stay as they were.
func (t *Totals) failed(class Class) {
	failures := maps.Clone(t.PullFailures)
	if failures == nil {
		failures = map[Class]int64{}
	}
	failures[class]++
	t.PullFailures = failures
}

// Condition types, reasons and messages of the Machine Config Operator:
// pkg/daemon/pinned_image_set.go.
const (
	ProgressingCondition = "PinnedImageSetsProgressing"
	DegradedCondition    = "PinnedImageSetsDegraded"

	pending        = "Pending" // ours: no pass has tried yet
	asExpected     = "AsExpected"
	imagePrefetch  = "ImagePrefetch"
	prefetchFailed = "PrefetchFailed"
)

// NoSets is the reason why a node is not ready that has no sets and is meant to have some; ours.
const NoSets = "NoSets"

// ErrNoSets is the error of such a node. What it has pinned stays pinned.
var ErrNoSets = fault.New(fault.Other, "the node has no sets",
	"`pinbox-node attach` brings some; `\"sets\": \"optional\"` in node.json means that the node is to have none")

// maxErrorBytes bounds lastFailedGenerationError, as the cluster's API does.
const maxErrorBytes = 32768

// is reports whether a condition is true.
func (s Status) is(kind string) bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool { return c.Type == kind && c.Status == "True" })
}

// Healthy reports that every image is in a store and pinned, and nothing else is wrong.
func (s Status) Healthy() bool {
	hasProblem := func(c Condition) bool { return c.Status == "True" || c.Reason != asExpected }
	return len(s.Conditions) > 0 && !slices.ContainsFunc(s.Conditions, hasProblem)
}

// NoSets reports that the node has no sets and is meant to have some.
func (s Status) NoSets() bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool { return c.Reason == NoSets })
}

// Pending reports that the sets have changed since the last pass.
func (s Status) Pending() bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool { return c.Reason == pending })
}

// Degraded reports that something is wrong, and that no pass is repairing it.
func (s Status) Degraded() bool { return s.is(DegradedCondition) }

// Summary describes the status in one line.
func (s Status) Summary() string {
	pinned := 0
	for _, i := range s.Images {
		if i.State == Pinned {
			pinned++
		}
	}
	of := fmt.Sprintf("%d of %d images are pinned", pinned, len(s.Images))
	switch p := s.Progress; {
	case s.Healthy() && len(s.Sets) == 0:
		return "no sets, so nothing is pinned"
	case s.Healthy():
		return fmt.Sprintf("all %d images of %d sets are pinned", pinned, len(s.Sets))
	case s.Pending() && s.Owner == MCO:
		return "waiting for the Machine Config Operator; " + of
	case s.Pending():
		return "waiting for a pass, since the sets have changed; " + of
	case p != nil:
		return fmt.Sprintf("pulling: %d of %d images, %s of %s%s",
			p.Images, p.OfImages, bytesize.Format(p.Bytes), bytesize.Format(p.OfBytes), p.left(s.Time))
	case s.NoSets():
		return "not ready: " + ErrNoSets.Error()
	case s.is(ProgressingCondition):
		return "a pass is running; " + of
	}
	return "degraded: " + of
}

// left estimates the time that the pulls still need.
func (p Progress) left(now time.Time) string {
	if p.ETA.IsZero() || p.OfBytes == 0 {
		return ""
	}
	rest := max(p.ETA.Sub(now).Round(time.Second), time.Second)
	return fmt.Sprintf(" (%d %%), done in about %s", 100*p.Bytes/p.OfBytes, rest)
}

// Reason is the first error; "" if there is none.
func (s Status) Reason() string {
	if len(s.Errors) > 0 {
		return s.Errors[0]
	}
	for _, set := range s.Sets {
		if set.LastFailedGenerationError != "" {
			return set.LastFailedGenerationError
		}
	}
	return ""
}
