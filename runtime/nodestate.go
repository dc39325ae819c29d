package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// nodeState is what a pass finds: what the sets want, and what the node has.
type nodeState struct {
	sets []pinset.Set
	// broken is what went wrong with reading sets.
	broken error
	// want is the union of the sets, sorted; pins is what the drop-in has to say.
	want, pins []pinset.Image
	// current is what it says; exact, that it says nothing else.
	current []pinset.Image
	exact   bool
	// others are the pins of somebody else's drop-in, which wins.
	others  []string
	version string
	stored  []pinset.Stored
	// present has the names of all images in the stores, and whether they are pinned.
	present map[string]bool
	// unpinned are images that sets once asked for, while they are in the stores.
	unpinned []string
	// pause is the name of the image that is pinned whatever the drop-in says.
	pause string
}

// observe asks for everything once: one list of images, and not a byte to any registry.
func (r *Reconciler) observe(ctx context.Context, o Options) (nodeState, error) {
	var n nodeState
	n.sets, n.broken = r.Sets()
	n.want = pinset.Union(n.sets...)
	var err error
	if n.current, n.exact, n.others, err = r.Pins.Current(); err != nil {
		return n, fmt.Errorf("drop-in: %w", err)
	}
	n.pins = n.want
	if n.broken != nil {
		// Nobody knows what the broken one asks for, so nothing is unpinned.
		n.pins = pinset.Union(pinset.Set{Images: slices.Concat(n.want, n.current)})
	}
	name, version, err := r.answers(ctx, o.Wait)
	if err != nil {
		return n, err
	}
	n.version = name + " " + version
	if err := supported(name, version); err != nil {
		return n, err
	}
	if n.pause, err = r.Runtime.Pause(ctx); err != nil {
		return n, err
	}
	return n, n.list(ctx, r.Images, r.previous.Unpinned)
}

// list sees what is in the stores. once are images that were unpinned before.
func (n *nodeState) list(ctx context.Context, images Images, once []string) error {
	stored, err := images.List(ctx)
	if err != nil {
		return err
	}
	n.stored, n.present = stored, map[string]bool{}
	for _, s := range stored {
		for _, name := range s.Names {
			n.present[name] = n.present[name] || s.Pinned
		}
	}
	gone := map[string]bool{}
	for _, name := range once {
		if _, there := n.present[name]; there {
			gone[name] = true
		}
	}
	// What is only now being unpinned counts though it is not there: CRI-O may be
	// at the end of a pull that a pass which was killed has begun.
	for _, img := range n.current {
		gone[img.String()] = true
	}
	for _, img := range n.pins {
		delete(gone, img.String())
	}
	n.unpinned = slices.Sorted(maps.Keys(gone))
	return nil
}

// answers waits for CRI-O, but not for ever: somebody may want to know.
func (r *Reconciler) answers(ctx context.Context, wait time.Duration) (name, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return r.Runtime.Version(ctx)
}

// ErrUnsupported says that the runtime does not pin as it should.
var ErrUnsupported = errors.New("the container runtime cannot be used")

// supported refuses what does not pin: before 1.31 CRI-O does not unpin on reload
// (cri-o issue 8202) nor tell in every answer what is pinned.
func supported(name, version string) error {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, majorErr := strconv.Atoi(major)
	n, minorErr := strconv.Atoi(minor)
	switch {
	case name != "cri-o":
		return fmt.Errorf("%w: it is %s %s; images are pinned by CRI-O 1.31 or newer", ErrUnsupported, name, version)
	case majorErr != nil || minorErr != nil:
		return nil // somebody's own build
	case m < 1 || m == 1 && n < 31:
		return fmt.Errorf("%w: CRI-O %s does not unpin when it reloads; it takes 1.31 or newer", ErrUnsupported, version)
	}
	return nil
}

// missing are the images that no store has.
func (n nodeState) missing() []pinset.Image {
	return slices.DeleteFunc(slices.Clone(n.want), func(img pinset.Image) bool {
		_, there := n.present[img.String()]
		return there
	})
}
