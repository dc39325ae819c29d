package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNoBase says that the options of a delta name no base.
var ErrNoBase = fault.New(fault.Usage, "a delta needs to know what nodes have",
	"name the base with --from: the folder or ISO of a build or of a delta, or a lock")

// Missing counts the layers that nodes lack, each blob once.
type Missing struct {
	Layers int   `json:"layers"`
	Bytes  int64 `json:"bytes"` // size of the blobs
}

// DeltaResult describes a delta that was built.
type DeltaResult struct {
	// ReleaseID is the release that nodes have with the delta.
	pinset.ReleaseID
	Platform pinset.Platform `json:"platform"`
	Out      string          `json:"out"`
	// Totals count all images of the release, New the layers in the delta.
	Totals pinset.Totals `json:"totals"`
	New    Missing       `json:"new"`
	// Bases that the delta was made for. A node has one of them.
	Bases []pinset.Base `json:"bases"`
	// Store is the store's name in the folder, StoreSize its size in bytes.
	Store       string `json:"store"`
	StoreSize   int64  `json:"storeSize"`
	StoreDigest string `json:"storeDigest"`
	// StoreRootHash is the root of the store's hash tree; "" of a thin delta.
	StoreRootHash string `json:"storeRootHash,omitempty"`
	// Thin is about the store that nodes make of a thin delta; nil for another delta.
	Thin     *pinset.Thin `json:"thin,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
	// Seconds is the duration of the build.
	Seconds float64 `json:"seconds"`
}

// Delta makes the folder of a delta. Its store has the records of all images, and the layers that are not in
// all bases of o.From. The folder appears complete, or not at all.
func Delta(ctx context.Context, o Options) (DeltaResult, error) {
	started := time.Now()
	warnings, err := o.validateDelta()
	if err != nil {
		return DeltaResult{}, err
	}
	bases, refused, err := o.readBases()
	if err != nil {
		return DeltaResult{}, err
	}
	program, err := openNodeBinary(o)
	if o.Appliance.Spec.Node.Binary == "" && errors.Is(err, fs.ErrNotExist) {
		warnings, err = append(warnings, "nodes keep their pinbox-node: there is none at "+o.NodeBinary+
			", and neither --node-binary nor spec.node.binary names one"), nil
	}
	if err != nil {
		return DeltaResult{}, err
	}
	defer program.Close() // nil if there is none
	r := recipe{program: program, bases: bases}
	if o.Thin {
		if r.opened, err = o.openBases(ctx); err != nil {
			return DeltaResult{}, err
		}
		defer closeBases(r.opened)
	}
	p, err := run(ctx, o, r)
	if err != nil {
		return DeltaResult{}, err
	}
	return DeltaResult{
		ReleaseID: p.lock.ReleaseID, Platform: p.lock.Platform, Out: filepath.Clean(o.Out), Totals: p.lock.Totals(),
		New: missing(*p.common, p.lock), Bases: p.common.Delta.Bases,
		Store: p.store.Name, StoreSize: p.store.Size, StoreDigest: p.store.Digest(), StoreRootHash: p.store.RootHash(),
		Thin:     p.common.Delta.Thin,
		Warnings: slices.Concat(warnings, refused, p.warnings), Seconds: time.Since(started).Seconds(),
	}, nil
}

// validateDelta also removes from the appliance what a delta cannot change, and warns of it.
func (o *Options) validateDelta() (warnings []string, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if len(o.From) == 0 && o.siteBases == nil {
		return nil, ErrNoBase
	}
	s := &o.Appliance.Spec
	if f := format.Of(s.Store.Format).Describe(); f.Delta == "" {
		return nil, fmt.Errorf("%w: spec.store.format is %s, and a delta is a %s",
			spec.ErrAppliance, f.Name, format.NamesWith(func(d format.Description) bool { return d.Delta != "" }))
	}
	var ignored []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"spec.ignition", !s.Ignition.IsZero()},
		{"spec.iso", !s.ISO.IsZero()},
		{"spec.mirrors", len(s.Mirrors) > 0},
		{"spec.node.pullSecret", s.Node.PullSecret != ""},
	} {
		if field.set {
			ignored = append(ignored, field.name)
		}
	}
	if len(ignored) > 0 {
		warnings = append(warnings,
			"a delta does not change the configuration of nodes; it ignores "+strings.Join(ignored, ", "))
	}
	s.Ignition, s.ISO = spec.Ignition{}, spec.ISO{}
	s.Node = spec.Node{ImageVolumes: s.Node.ImageVolumes, Binary: s.Node.Binary}
	return warnings, nil
}

// readBases reads the bases. It warns if nodes that have one of them take the delta only with --force.
func (o Options) readBases() (bases []base.Base, warnings []string, err error) {
	if o.siteBases != nil {
		return o.siteBases, nil, nil
	}
	bases, err = base.Read(o.From, o.Appliance.Spec.Platform)
	next := o.Appliance.Metadata.ID()
	for _, b := range bases {
		before := b.Locked.ReleaseID
		refused := next.IsOf(before)
		if refused == nil {
			refused = next.Follows(before)
		}
		if refused != nil {
			warnings = append(warnings, fmt.Sprintf("nodes attach the delta only with --force: %v", refused))
		}
	}
	return bases, warnings, err
}

// newLayers returns the images with only those layers that are not in all bases.
func newLayers(c base.Common, images []storage.Resolved) []storage.Resolved {
	images = slices.Clone(images)
	for i := range images {
		images[i].Layers = c.Missing(images[i].LockedImage)
	}
	return images
}

// DeltaPlan is what a delta would contain.
type DeltaPlan struct {
	Missing
	// ThinEstimate is about the size of a thin delta, in bytes: see estimateThin.
	ThinEstimate int64 `json:"thinEstimate"`
}

// rebuiltShare is what of the blob of a layer goes into a thin delta, if the bases have a layer in its place: of seven
// images of Debian 12 that were built again with the updates of its first years (`make bench`).
const rebuiltShare = 0.06

// estimateThin guesses the size of a thin delta. A layer that the first base has on another one costs nothing; one in
// whose place an image of the same repository has another, in that base, is taken for rebuilt, and all others for new.
// Only reading the layers tells more: one that was rebuilt takes between nothing and its blob.
func estimateThin(c base.Common, before base.Base, lock pinset.Lock) (bytes int64) {
	depth := map[string]int{} // layers of the images of a repository
	seen := map[digest.Digest]bool{}
	for _, img := range before.Locked.Images {
		name, _, _ := strings.Cut(img.Pin, "@")
		depth[name] = max(depth[name], len(img.Layers))
		for _, l := range img.Layers {
			seen[l.DiffID] = true
		}
	}
	for _, img := range lock.Images {
		name, _, _ := strings.Cut(img.Pin, "@")
		fresh := c.Missing(img)
		for n, l := range fresh {
			if seen[l.DiffID] {
				continue
			}
			seen[l.DiffID] = true
			if at := len(img.Layers) - len(fresh) + n; at < depth[name] {
				bytes += int64(rebuiltShare * float64(l.Size))
			} else {
				bytes += l.Size
			}
		}
	}
	return bytes
}

func missing(c base.Common, lock pinset.Lock) Missing {
	lock.Images = slices.Clone(lock.Images)
	for i := range lock.Images {
		lock.Images[i].Layers = c.Missing(lock.Images[i])
	}
	t := lock.Totals()
	return Missing{t.Layers, t.Bytes}
}

// PlanDelta is Plan that also returns what a delta for the bases of o.From would contain; nil if there are
// no bases.
func PlanDelta(ctx context.Context, o Options) (pinset.Lock, *DeltaPlan, []string, error) {
	if len(o.From) == 0 {
		lock, warnings, err := Plan(ctx, o)
		return lock, nil, warnings, err
	}
	ignored, err := o.validateDelta()
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	bases, refused, err := o.readBases()
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	lock, warnings, err := Plan(ctx, o)
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	common := base.NewCommon(bases, lock.Images)
	lacks := DeltaPlan{missing(common, lock), estimateThin(common, bases[0], lock)}
	return lock, &lacks, slices.Concat(ignored, refused, warnings), nil
}
