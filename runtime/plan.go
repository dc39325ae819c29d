package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Plan is what a pass will do.
type Plan struct {
	// Owner of the drop-in. If it is MCO, a pass does nothing.
	Owner Owner
	// Pins that the drop-in will have. Rewrite means that it has to be written, and Reload that
	// CRI-O has to read it.
	Pins            []pinset.Image
	Rewrite, Reload bool
	// Unpin are the pins that no set has any more.
	Unpin []pinset.Image
	// Pulls in their order: releases first, then the smallest.
	Pulls []Pull
	// Copies are the images of image volumes that are copied into CRI-O's own store.
	Copies []Pull
	// GraphRoot of the store that images are pulled to.
	GraphRoot string
	// Unresolved are images that cannot be pulled, because their manifests cannot be read.
	Unresolved map[pinset.Image]Fault
	// Claims on file systems.
	Claims []Claim
	// Problem that would make the pass fail, or keep pods from the images.
	Problem error
	// Problems that make the plan less exact: a lock that cannot be read.
	Problems []error
}

// Pull is an image to pull, and the space that it needs.
type Pull struct {
	Image pinset.Image
	Need
	// unknown means that nobody knows its size: its manifest could not be looked up. CRI-O may still reach it, by
	// a proxy or credentials of its own.
	unknown bool
	// absent are the blobs that no store of the node has when the pass begins, with their sizes.
	absent map[digest.Digest]int64
}

// Plan returns what a pass would do. It changes nothing. The error that would make the pass fail is
// the Problem of the plan.
func (r *Reconciler) Plan(ctx context.Context) (Plan, error) {
	p, err := r.begin(ctx)
	configErr := errors.Join(p.rep.problems...)
	if err != nil {
		return Plan{}, errors.Join(configErr, err)
	}
	p.rep.sets, p.rep.broken = r.Node.Sets()
	if err := p.observe(ctx); err != nil {
		return Plan{}, err
	}
	n := &p.rep.nodeState
	if p.conf.Options.Owner == MCO {
		return Plan{Owner: MCO, Pins: n.pins, Problem: configErr}, n.broken
	}
	plan, err := p.plan(ctx, n.missing())
	if err != nil {
		return Plan{}, err
	}
	volumes, err := p.findCopies(ctx)
	if err != nil {
		return Plan{}, err
	}
	problem := volumes.err(false)
	if p.conf.CopyVolumes {
		plan.Copies, problem = volumes.images, nil
	}
	space := p.space(cmp.Or(plan.GraphRoot, volumes.graphRoot))
	needed := slices.Concat(plan.Pulls, plan.Copies)
	if plan.Claims, err = space.claims(needed); err != nil {
		return Plan{}, err
	}
	problem = errors.Join(problem, space.check(needed))
	if !plan.Rewrite { // if it is rewritten, the conflict may be with the old one
		problem = errors.Join(problem, r.Pins.Check(n.pins))
	}
	if plan.Problem = errors.Join(configErr, n.broken, problem); plan.Problem == nil && len(plan.Unresolved) > 0 {
		plan.Problem = fmt.Errorf("%d images cannot be looked up", len(plan.Unresolved))
	}
	return plan, nil
}

// plan resolves missing images, and returns what is to be done. It does not check the space.
func (p *pass) plan(ctx context.Context, missing []pinset.Image) (Plan, error) {
	n := &p.rep.nodeState
	plan := Plan{
		Pins: n.pins, Owner: Pinbox, Rewrite: !n.dropInCurrent(), Reload: !n.dropInCurrent() || !n.pinsApplied(),
		Unpin: without(n.current, n.pins), Unresolved: map[pinset.Image]Fault{},
	}
	if len(missing) == 0 {
		return plan, nil
	}
	var err error
	if plan.GraphRoot, err = p.r.Runtime.GraphRoot(ctx); err != nil {
		return Plan{}, err
	}
	// Layers of a lock or a record that cannot be read count as missing.
	stores, sets, lockErr := p.conf.Disk.Locks()
	layers, layerErr := p.conf.Disk.Layers(plan.GraphRoot)
	plan.Problems = []error{lockErr, layerErr}
	o := p.conf.Options
	manifests := resolver{manifests: p.conf.Manifests, retry: o.Retry, timeout: min(manifestTimeout, o.Stall)}
	locked, unresolved := manifests.resolve(ctx, missing, slices.Concat(stores, sets))
	plan.Unresolved = unresolved
	plan.Pulls, err = pulls(locked, layers)
	return plan, err
}

// without returns the images of a that are not in b.
func without(a, b []pinset.Image) []pinset.Image {
	return slices.DeleteFunc(slices.Clone(a), func(img pinset.Image) bool { return slices.Contains(b, img) })
}

// pulls orders the images and computes what each needs, given the layers that the node has. Layers
// that images share count once.
func pulls(missing []pinset.LockedImage, layers pinset.Layers) ([]Pull, error) {
	missing = slices.Clone(missing)
	slices.SortFunc(missing, func(a, b pinset.LockedImage) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Pin, b.Pin))
	})
	all := make([]Pull, len(missing))
	for i, locked := range missing {
		img, err := pinset.ParseImage(locked.Pin)
		if err != nil {
			return nil, err
		}
		all[i] = Pull{Image: img, absent: layers.MissingBlobs(locked)}
	}
	for i, locked := range missing { // after all absent blobs are known
		missing, fetch := layers.MissingLayers(locked)
		all[i].Need = need(missing, fetch)
	}
	return all, nil
}

// unknownPulls are the pulls of images whose manifests could not be looked up, in the order of their names.
func unknownPulls(unresolved map[pinset.Image]Fault) (all []Pull) {
	for _, img := range pinset.Union(pinset.Set{Images: slices.Collect(maps.Keys(unresolved))}) {
		all = append(all, Pull{Image: img, unknown: true})
	}
	return all
}

// releases are the last parts of the repositories that release images are in.
var releases = []string{"ocp-release", "ocp-release-nightly", "release-images", "release", "scos-release"}

// rank orders pulls: releases first, since they name the other images of a cluster, and large
// images last.
func rank(img pinset.LockedImage) int64 {
	parsed, err := pinset.ParseImage(img.Pin)
	if err == nil && slices.Contains(releases, path.Base(parsed.Repository)) {
		return -1
	}
	var size int64
	for _, l := range img.Layers {
		size += l.Size
	}
	return size
}

// Need of all pulls together.
func (p Plan) Need() Need {
	n, _ := totalNeed(p.Pulls, 0)
	return n
}
