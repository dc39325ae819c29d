package runtime

import (
	"context"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Images is the container runtime as a pass sees it.
type Images interface {
	// Version waits until the runtime answers.
	Version(context.Context) (string, error)
	// List tells for every image whether it is pinned.
	List(context.Context) (map[pinset.Image]bool, error)
}

// Observe looks once: one list of images, and not a byte to any registry. It
// changes nothing. problems are what is known to be wrong beside.
func Observe(ctx context.Context, images Images, sets []pinset.Set, problems error) (Status, error) {
	version, err := images.Version(ctx)
	if err != nil {
		return Status{}, err
	}
	present, err := images.List(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Judge(sets, present, problems)
	s.Time, s.Runtime = time.Now().UTC(), version
	return s, nil
}
