package runtime

import (
	"context"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Runtime is the container runtime itself.
type Runtime interface {
	// Version waits until the runtime answers.
	Version(context.Context) (name, version string, err error)
	// GraphRoot is that of the store that images are pulled to.
	GraphRoot(context.Context) (string, error)
	// PauseImage is the name of the image that is always pinned.
	PauseImage(context.Context) (string, error)
	// ImagesInUse has the IDs of the images that containers have.
	ImagesInUse(context.Context) (map[string]bool, error)
}

// Images of the container runtime.
type Images interface {
	List(context.Context) ([]pinset.Stored, error)
	Pull(context.Context, pinset.Image) error
	Remove(context.Context, pinset.Image) error
}

// Pins is what the runtime is told to pin.
type Pins interface {
	// Current returns the pins of our drop-in; exact says that it has nothing else. others are
	// the pins of a later drop-in, which the runtime uses instead.
	Current() (images []pinset.Image, exact bool, others []string, err error)
	// Apply writes the drop-in if it has changed, and reloads the runtime unless its
	// configuration cannot be read, which Check reports.
	Apply(context.Context, []pinset.Image) (reloaded bool, err error)
	// Check says what in the configuration keeps these from being pinned.
	Check([]pinset.Image) error
	// Refusal says why the runtime has refused the last reload; nil if it has not.
	Refusal(context.Context) error
}

// Manifests finds the layers of images that no lock has.
type Manifests interface {
	Resolve(context.Context, pinset.Image) (pinset.LockedImage, error)
	// Forget drops the manifests that were kept for another attempt.
	Forget()
}

// Disk is where the node keeps images.
type Disk interface {
	// Locks returns those of the read-only stores, and those beside the sets.
	Locks() (stores, beside []pinset.Lock, err error)
	// Layers that are unpacked, in the store at root and in the read-only ones.
	Layers(root string) (pinset.Layers, error)
	// Space at root, and where pulls stage their blobs.
	Space(root string) (store, staging disk.Space, err error)
	// Staged bytes of the pulls that run.
	Staged() int64
}
