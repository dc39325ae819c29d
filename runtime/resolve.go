package runtime

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinbox/pinbox/storage/pinset"
)

// askTime is how long to wait for a manifest, which is small.
const askTime = 30 * time.Second

// resolve finds the layers of images, in the locks or else in the registries.
func (r *Reconciler) resolve(
	ctx context.Context, images []pinset.Image, locks []pinset.Lock,
) ([]pinset.LockedImage, map[pinset.Image]Fault) {
	known := map[string]pinset.LockedImage{}
	for _, lock := range locks {
		if _, arch, _ := lock.Platform.Split(); arch != goruntime.GOARCH {
			continue // the images of another platform have other layers
		}
		for _, img := range lock.Images {
			known[img.Pin] = img
		}
	}
	locked, errs := make([]pinset.LockedImage, len(images)), make([]error, len(images))
	var group errgroup.Group
	var dead sync.Map // hosts that do not answer
	group.SetLimit(8)
	for i, img := range images {
		var ok bool
		if locked[i], ok = known[img.String()]; ok {
			continue
		}
		group.Go(func() error {
			locked[i], errs[i] = r.manifest(ctx, img, &dead)
			return nil
		})
	}
	_ = group.Wait() // the errors are each image's own
	unknown := map[pinset.Image]Fault{}
	for i, err := range errs {
		if err != nil {
			unknown[images[i]] = fault(err)
		}
	}
	return slices.DeleteFunc(locked, func(l pinset.LockedImage) bool { return l.Pin == "" }), unknown
}

// manifest asks a registry as often as a pull would. A host that has failed that often for
// another image is dead, and is asked once.
func (r *Reconciler) manifest(ctx context.Context, img pinset.Image, dead *sync.Map) (pinset.LockedImage, error) {
	host, _, _ := strings.Cut(img.Repository, "/")
	retry := r.defaults().Retry
	for tries := 1; ; tries++ {
		locked, err := r.ask(ctx, img)
		if err == nil || !Classify(err).Transient() {
			return locked, err
		}
		_, given := dead.Load(host)
		if given || tries >= retry.Tries || sleep(ctx, retry.after(tries)) != nil {
			if Classify(err) == Network {
				dead.Store(host, true)
			}
			return locked, err
		}
	}
}

// ask asks a registry once, with a time limit.
func (r *Reconciler) ask(ctx context.Context, img pinset.Image) (pinset.LockedImage, error) {
	ctx, cancel := context.WithTimeout(ctx, min(askTime, r.defaults().Stall))
	defer cancel()
	locked, err := r.Manifests.Resolve(ctx, img)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrStalled, err)
	}
	return locked, err
}
