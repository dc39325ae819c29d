package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// world is what a pass finds: what the sets want, and what the node has.
type world struct {
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

// look asks for everything once: one list of images, and not a byte to any registry.
func (r *Reconciler) look(ctx context.Context) (world, error) {
	var w world
	w.sets, w.broken = r.Sets()
	w.want = pinset.Union(w.sets...)
	var err error
	if w.current, w.exact, w.others, err = r.Pins.Current(); err != nil {
		return w, fmt.Errorf("drop-in: %w", err)
	}
	w.pins = w.want
	if w.broken != nil {
		// Nobody knows what the broken one asks for, so nothing is unpinned.
		w.pins = pinset.Union(pinset.Set{Images: slices.Concat(w.want, w.current)})
	}
	name, version, err := r.answers(ctx)
	if err != nil {
		return w, err
	}
	w.version = name + " " + version
	if err := supported(name, version); err != nil {
		return w, err
	}
	if w.pause, err = r.Runtime.Pause(ctx); err != nil {
		return w, err
	}
	return w, w.list(ctx, r.Images, r.previous.Unpinned)
}

// list sees what is in the stores. once are images that were unpinned before.
func (w *world) list(ctx context.Context, images Images, once []string) error {
	stored, err := images.List(ctx)
	if err != nil {
		return err
	}
	w.stored, w.present = stored, map[string]bool{}
	for _, s := range stored {
		for _, name := range s.Names {
			w.present[name] = w.present[name] || s.Pinned
		}
	}
	gone := map[string]bool{}
	for _, name := range once {
		if _, there := w.present[name]; there {
			gone[name] = true
		}
	}
	// What is only now being unpinned counts though it is not there: CRI-O may be
	// at the end of a pull that a pass which was killed has begun.
	for _, img := range w.current {
		gone[img.String()] = true
	}
	for _, img := range w.pins {
		delete(gone, img.String())
	}
	w.unpinned = slices.Sorted(maps.Keys(gone))
	return nil
}

// answers waits for CRI-O, but not for ever: somebody may want to know.
func (r *Reconciler) answers(ctx context.Context) (name, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.defaults().Wait)
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
func (w world) missing() []pinset.Image {
	return slices.DeleteFunc(slices.Clone(w.want), func(img pinset.Image) bool { _, there := w.present[img.String()]; return there })
}

// mispinned are images in the stores that are not pinned though they should be,
// or that still are though we unpinned them. CRI-O pins an image by any of its
// names; what others pin is theirs.
func (w world) mispinned() []string {
	pins := map[string]bool{w.pause: true}
	for _, name := range w.others {
		pins[name] = true
	}
	var names []string
	for _, img := range w.pins {
		name := img.String()
		pins[name] = true
		if pinned, there := w.present[name]; there && !pinned {
			names = append(names, name)
		}
	}
	for _, s := range w.stored {
		wanted := slices.ContainsFunc(s.Names, func(name string) bool { return pins[name] })
		ours := slices.ContainsFunc(s.Names, func(name string) bool { return slices.Contains(w.unpinned, name) })
		if s.Pinned && ours && !wanted {
			names = append(names, s.Names[0])
		}
	}
	return names
}

// written says that the drop-in is as it is to be. While there is nothing to pin,
// there need not be one.
func (w world) written() bool {
	return len(w.pins) == 0 && len(w.current) == 0 || w.exact && slices.Equal(w.current, w.pins)
}

// asWanted says that every image of the sets is there and pinned.
func (w world) asWanted() bool {
	return !slices.ContainsFunc(w.want, func(img pinset.Image) bool { return !w.present[img.String()] })
}

// asPinned says that CRI-O pins as the drop-in is to say.
func (w world) asPinned() bool { return len(w.mispinned()) == 0 }
