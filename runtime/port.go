package runtime

import (
	"context"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Node is the machine that a pass is for, besides its container runtime.
type Node interface {
	// Configure reads what other programs may have changed on the node. What it returns with an error counts.
	Configure(context.Context) (Configuration, error)
	// Sets reads the node's sets. The sets that it returns with an error still count.
	Sets() ([]pinset.Set, error)
	// Publish writes the status for others to read.
	Publish(Status) error
}

// Configuration is what a node is configured with, for one pass.
type Configuration struct {
	Options   Options
	Manifests Manifests
	Disk      Disk
	// Aside may be nil.
	Aside Aside
	// Volumes has the images of image volumes, and CopyVolumes means that a pass copies those that it lacks.
	// nil is fine.
	Volumes     Volumes
	CopyVolumes bool
	// Cluster is what the node knows of the sets of its cluster; nil if it follows none.
	Cluster *ClusterStatus
	// Wanted are images that pods wanted, and that the node did not have then.
	Wanted []wanted.Image
	// Warnings are what the status warns of, too.
	Warnings []string
}

// Stores are the read-only stores of a node.
type Stores interface {
	// Reconcile mounts the attached stores, or only reads their state. What it returns with an error counts.
	Reconcile(context.Context) (StoresState, error)
	// Take attaches the store that a set names.
	Take(ctx context.Context, name string) error
}

// StoresState is what Stores says of the stores, and what it knows by them.
type StoresState struct {
	// Releases that the node keeps, and stores that were attached.
	Releases []ReleaseStatus
	Stores   []StoreStatus
	// Own is how the appliance's own store is verified; nil if none is mounted.
	Own *VerityStatus
	// Program says which pinbox-node runs; nil if that is unknown.
	Program *ProgramStatus
}

// Runtime is the container runtime itself.
type Runtime interface {
	// Version waits until the runtime answers.
	Version(context.Context) (name, version string, err error)
	// GraphRoot is the graph root of the store that images are pulled to.
	GraphRoot(context.Context) (string, error)
	// PauseImage is the name of the image that is always pinned.
	PauseImage(context.Context) (string, error)
	// ImagesInUse returns the IDs and names of the images of containers.
	ImagesInUse(context.Context) (map[string]bool, error)
}

// Images of the container runtime.
type Images interface {
	List(context.Context) ([]pinset.StoredImage, error)
	Pull(context.Context, pinset.Image) error
	Remove(context.Context, pinset.Image) error
}

// Pins is the drop-in that pins images.
type Pins interface {
	// Current returns the pins of pinbox's drop-in; exact reports that it is what Apply writes for them. others
	// reports whether another drop-in pins an image, too.
	Current() (images []pinset.Image, exact bool, others func(name string) bool, err error)
	// Apply writes the drop-in if it has changed, and reloads the runtime unless its
	// configuration cannot be read, which Check reports.
	Apply(context.Context, []pinset.Image) (reloaded bool, err error)
	// Check returns an error if the configuration conflicts with these pins.
	Check([]pinset.Image) error
	// Refusal returns why the runtime has refused the last reload; nil if it has not.
	Refusal(context.Context) error
}

// Manifests resolves images that no lock has.
type Manifests interface {
	Resolve(context.Context, pinset.Image) (pinset.LockedImage, error)
	// Forget removes the manifests that were cached for another attempt.
	Forget()
}

// Disk reads the stores of the node and measures their file systems.
type Disk interface {
	// Locks returns the locks of the read-only stores, and the locks in the folder of sets.
	Locks() (stores, sets []pinset.Lock, err error)
	// Images returns the images of the read-only stores, with the names in their records.
	Images() ([]pinset.StoredImage, error)
	// Layers returns the unpacked layers of the store at the graph root and of the read-only
	// stores.
	Layers(graphRoot string) (pinset.Layers, error)
	// InUse returns the IDs of the images that containers of the store at the graph root have, whose ever they are.
	InUse(graphRoot string) (map[string]bool, error)
	// Space returns the space at the graph root, and in the folder where pulls stage their blobs.
	Space(graphRoot string) (store, staging disk.Space, err error)
	// Staged returns the bytes that running pulls have staged.
	Staged() int64
}

// Aside are the images of the main store that are set aside, since a store that they stand on is not there.
type Aside interface {
	Images() ([]pinset.StoredImage, error)
	// Broken returns an error with an image of the store at the graph root for which the runtime can list none.
	Broken(graphRoot string) error
}
