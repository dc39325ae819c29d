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

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// nodeState is what a pass observes: the images of the sets, and those of the node.
type nodeState struct {
	sets []pinset.Set
	// broken is the error of reading the sets.
	broken error
	// want is the union of the sets, sorted; pins are the ones that the drop-in should have: those
	// and the images of read-only stores.
	want, pins []pinset.Image
	// notInSets are the images of read-only stores that no set has.
	notInSets []pinset.StoredImage
	// current are the pins that the drop-in has; exact reports that it has nothing else.
	current []pinset.Image
	exact   bool
	// others reports whether a drop-in of somebody else pins an image; nil if none does.
	others  func(name string) bool
	version string
	stored  []pinset.StoredImage
	// unlisted means that the runtime answers, and cannot list the images.
	unlisted bool
	// present maps the names of all images in the stores to whether they are pinned.
	present map[string]bool
	// unpinned are images in the stores that sets had earlier, and no longer have.
	unpinned []string
	// latePulls are images that sets had earlier and that no store had then, and when they were unpinned: CRI-O may
	// be about to finish a pull that an ended process has begun. Those that sets have again are among them until the
	// drop-in has them, too.
	latePulls map[string]time.Time
	// graphRoot of the store that images are pulled to, "" if it is unknown, and the space there and where blobs are
	// staged.
	graphRoot string
	space     []SpaceStatus
	// setAside are images of the main store that are set aside.
	setAside []pinset.StoredImage
	// pause is the name of the image that is always pinned, with any drop-in.
	pause string
}

// observe reads everything but the sets once. It lists the images once, and contacts no registry.
func (p *pass) observe(ctx context.Context) (err error) {
	r := p.r
	n := nodeState{sets: p.rep.sets, broken: p.rep.broken}
	defer func() { p.rep.nodeState = n }()
	n.want = pinset.Union(n.sets...)
	if n.current, n.exact, n.others, err = r.Pins.Current(); err != nil {
		return fmt.Errorf("drop-in: %w", err)
	}
	storesErr := n.addPins(p.conf.Disk, p.conf.Options.Owner)
	if n.broken != nil || storesErr != nil { // Configure reports storesErr
		// A set or a store that cannot be read may have any of the current pins, so all of them stay.
		n.pins = pinset.Union(pinset.Set{Images: slices.Concat(n.pins, n.current)})
	}
	if p.conf.Aside != nil {
		n.setAside, _ = p.conf.Aside.Images() // Stores reports the error
	}
	name, version, err := versionOf(ctx, r.Runtime, p.conf.Options.Wait)
	if err != nil {
		return err
	}
	n.version = name + " " + version
	if err := Supported(name, version); err != nil {
		return err
	}
	if n.pause, err = r.Runtime.PauseImage(ctx); err != nil {
		return err
	}
	n.graphRoot, _ = r.Runtime.GraphRoot(ctx) // who pulls reports the error
	if err := n.list(ctx, r.Images, r.previous.Unpinned, r.previous.LatePulls); err != nil {
		n.unlisted = true
		if p.conf.Aside != nil {
			err = errors.Join(err, p.conf.Aside.Broken(n.graphRoot))
		}
		return err
	}
	return nil
}

// measure measures the file systems that pulls fill. What cannot be measured is left out.
func measure(d Disk, graphRoot string) (all []SpaceStatus) {
	if graphRoot == "" {
		return nil
	}
	store, staging, err := d.Space(graphRoot)
	if err != nil {
		return nil
	}
	all = []SpaceStatus{{store.Path, store.Total, store.Free}}
	if staging.Device != store.Device {
		all = append(all, SpaceStatus{staging.Path, staging.Total, staging.Free})
	}
	return all
}

// addPins computes the pins: the images of the sets and, for the kubelet, those of read-only stores.
// It would try to remove these at each pass of its garbage collection, and CRI-O cannot: up to 1.35
// the collection fails as a whole, and from 1.36 on it counts bytes as freed that were not. The Machine
// Config Operator pins the sets alone.
func (n *nodeState) addPins(disk Disk, owner Owner) error {
	images, err := disk.Images()
	wanted := map[string]bool{}
	for _, img := range n.want {
		wanted[img.String()] = true
	}
	var more pinset.Set
	for _, img := range images {
		// CRI-O pins an image by any of its names.
		if slices.ContainsFunc(img.Names, func(name string) bool { return wanted[name] }) {
			continue
		}
		n.notInSets = append(n.notInSets, img)
		for _, name := range img.Names {
			if pin, err := pinset.ParseImage(name); err == nil && owner != MCO {
				more.Images = append(more.Images, pin)
			}
		}
	}
	n.pins = pinset.Union(pinset.Set{Images: n.want}, more)
	return err
}

// storeImages describes the images of read-only stores that no set has.
func (n nodeState) storeImages() (all []StoreImage) {
	for _, img := range n.notInSets {
		s := StoreImage{Names: img.Names}
		for _, name := range img.Names {
			s.Pinned = s.Pinned || n.present[name]
		}
		if len(img.Names) == 0 {
			s.Names = []string{img.ID}
		}
		same := func(other StoreImage) bool { return slices.Equal(other.Names, s.Names) } // in several stores
		if !slices.ContainsFunc(all, same) {
			all = append(all, s)
		}
	}
	return all
}

// asideImages describes the images that are set aside.
func (n nodeState) asideImages() (all []StoreImage) {
	for _, img := range n.setAside {
		names := img.Names
		if len(names) == 0 {
			names = []string{img.ID}
		}
		all = append(all, StoreImage{Names: names})
	}
	return all
}

// maxLatePull is how long a pull may go on in CRI-O after the process that asked for it has ended. CRI-O cancels the
// transfer with its client (server/image_pull.go), and finishes what it unpacks.
const maxLatePull = time.Hour

// list lists the images in the stores. unpinned and late are what earlier passes have unpinned.
func (n *nodeState) list(ctx context.Context, images Images, unpinned []string, late map[string]time.Time) error {
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
	now := time.Now()
	dropped := map[string]time.Time{}
	for _, name := range unpinned {
		if _, present := n.present[name]; present {
			dropped[name] = now
		}
	}
	for _, img := range n.current {
		dropped[img.String()] = now
	}
	maps.Copy(dropped, late)
	n.unpinned, n.latePulls = nil, map[string]time.Time{}
	for _, img := range n.pins {
		name := img.String()
		if since, again := dropped[name]; again && !slices.Contains(n.current, img) {
			n.latePulls[name] = since // if this pass is killed before the drop-in has it, only the status knows of it
		}
		delete(dropped, name)
	}
	for name, since := range dropped {
		if _, present := n.present[name]; present {
			n.unpinned = append(n.unpinned, name)
		} else if now.Sub(since) < maxLatePull {
			n.latePulls[name] = since
		}
	}
	slices.Sort(n.unpinned)
	return nil
}

// versionOf waits until CRI-O answers, for a limited time.
func versionOf(ctx context.Context, r Runtime, wait time.Duration) (name, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return r.Version(ctx)
}

// ErrUnsupported is a container runtime that cannot pin images as pinbox needs it.
var ErrUnsupported = fault.New(fault.Input, "the container runtime cannot be used",
	"update CRI-O")

// Supported returns an error for a runtime that cannot pin: before 1.31, CRI-O does not unpin
// images on reload (cri-o issue 8202) and does not report in every answer whether an image is
// pinned.
func Supported(name, version string) error {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, majorErr := strconv.Atoi(major)
	n, minorErr := strconv.Atoi(minor)
	switch {
	case name != "cri-o":
		return fmt.Errorf("%w: it is %s %s; images are pinned by CRI-O 1.31 or newer", ErrUnsupported, name, version)
	case majorErr != nil || minorErr != nil:
		return nil // a build without a version
	case m < 1 || m == 1 && n < 31:
		return fmt.Errorf("%w: CRI-O %s does not unpin when it reloads; it has to be 1.31 or newer", ErrUnsupported, version)
	}
	return nil
}

// missing are the images that no store has.
func (n nodeState) missing() []pinset.Image {
	return slices.DeleteFunc(slices.Clone(n.want), func(img pinset.Image) bool {
		_, present := n.present[img.String()]
		return present
	})
}
