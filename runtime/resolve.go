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

	"github.com/pinbox/pinbox/storage/download"
	"github.com/pinbox/pinbox/storage/pinset"
)

// manifestTimeout is how long a registry may take to send a manifest, which is small.
const manifestTimeout = 30 * time.Second

// resolver finds the layers of images.
type resolver struct {
	manifests Manifests
	retry     Retry
	timeout   time.Duration // of one request
}

// resolve finds the layers of images, in the locks or else in the registries.
func (r resolver) resolve(
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
	var unreachable sync.Map // hosts that do not answer
	group.SetLimit(8)
	for i, img := range images {
		var ok bool
		if locked[i], ok = known[img.String()]; ok {
			continue
		}
		group.Go(func() error {
			locked[i], errs[i] = r.manifest(ctx, img, &unreachable)
			return nil
		})
	}
	_ = group.Wait() // each image has its own error
	unresolved := map[pinset.Image]Fault{}
	for i, err := range errs {
		if err != nil {
			unresolved[images[i]] = faultOf(err)
		}
	}
	return slices.DeleteFunc(locked, func(l pinset.LockedImage) bool { return l.Pin == "" }), unresolved
}

// manifest reads a manifest with as many attempts as a pull has. A host whose requests for another
// image have all failed gets one request.
func (r resolver) manifest(ctx context.Context, img pinset.Image, unreachable *sync.Map) (pinset.LockedImage, error) {
	host, _, _ := strings.Cut(img.Repository, "/")
	for tries := 1; ; tries++ {
		locked, err := r.request(ctx, img)
		if err == nil || !Classify(err).Transient() {
			return locked, err
		}
		_, isUnreachable := unreachable.Load(host)
		if isUnreachable || tries >= r.retry.Tries || sleep(ctx, r.retry.after(tries)) != nil {
			if Classify(err) == Network {
				unreachable.Store(host, true)
			}
			return locked, err
		}
	}
}

// request makes one request, with a time limit.
func (r resolver) request(ctx context.Context, img pinset.Image) (pinset.LockedImage, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	locked, err := r.manifests.Resolve(ctx, img)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", download.ErrStalled, err)
	}
	return locked, err
}
