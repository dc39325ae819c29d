// Package runtime looks after the pinned images of a living node: it compares
// what the sets want with what the node has, and makes up the difference.
package runtime

import (
	"context"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Runtime is the container runtime as a whole.
type Runtime interface {
	// Version waits until the runtime answers.
	Version(context.Context) (name, version string, err error)
	// Root of the store that images are pulled to.
	Root(context.Context) (string, error)
	// Pause is the name of the image that is always pinned.
	Pause(context.Context) (string, error)
	// InUse has the IDs of the images that containers have.
	InUse(context.Context) (map[string]bool, error)
}

// Images of the container runtime.
type Images interface {
	List(context.Context) ([]pinset.Stored, error)
	Pull(context.Context, pinset.Image) error
	Remove(context.Context, pinset.Image) error
}

// Pins is what the runtime is told to pin.
type Pins interface {
	// Current pins of our drop-in; exact says that it has nothing else. others are
	// the pins that the runtime goes by instead, if it does.
	Current() (images []pinset.Image, exact bool, others []string, err error)
	// Apply writes the drop-in if need be, and has the runtime read it, unless
	// there is something that Conflict speaks of.
	Apply(context.Context, []pinset.Image) (reloaded bool, err error)
	// Conflict says what in the configuration keeps these from being pinned.
	Conflict([]pinset.Image) error
	// Refusal says why the runtime did not take the last change, if it did not.
	Refusal(context.Context) error
}

// Manifests tells what images are made of that no lock knows.
type Manifests interface {
	Image(context.Context, pinset.Image) (pinset.LockedImage, error)
	// Forget drops what was kept for another attempt.
	Forget()
}

// Disk is where the node keeps images.
type Disk interface {
	// Locks of the read-only stores, and those that lie beside the sets.
	Locks() (stores, beside []pinset.Lock, err error)
	// Layers that are unpacked, in the store at root and in the read-only ones.
	Layers(root string) (pinset.Layers, error)
	// Space at root, and where pulls stage their blobs.
	Space(root string) (store, staging disk.Space, err error)
	// Staged bytes of the pulls that run.
	Staged() int64
}
