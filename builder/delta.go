package builder

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/thin"
)

// ErrNoBase says that the options of a delta name no base.
var ErrNoBase = fault.New(fault.Usage, "a delta needs to know what nodes have",
	"name the base with --from: the folder or ISO of a build or of a delta, or a lock")

// Missing counts the layers that nodes lack, each blob once.
type Missing struct {
	Layers int   `json:"layers"`
	Bytes  int64 `json:"bytes"` // size of the blobs
}

// Delta makes the folder of a delta: it is Build with bases.
func Delta(ctx context.Context, o Options) (Result, error) {
	if !o.makesDelta() {
		return Result{}, ErrNoBase
	}
	return Build(ctx, o)
}

// readBases reads the bases of a delta. It warns if nodes that have one of them take the delta only with --force, and
// of incomplete stores.
func readBases(o Options) (bases []base.Base, warnings []string, err error) {
	if o.Bases != nil {
		return o.Bases, nil, nil
	}
	if bases, err = base.Read(o.From, o.Appliance.Spec.Platform); err != nil {
		return nil, nil, err
	}
	if warnings, err = base.Short(o.From); err != nil {
		return nil, nil, err
	}
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
	return bases, warnings, nil
}

// newLayers returns the images with only those layers that are not in all bases.
func newLayers(c *base.Common, images []storage.Resolved) []storage.Resolved {
	images = slices.Clone(images)
	for i := range images {
		images[i].Layers = c.Missing(images[i].LockedImage)
	}
	return images
}

// newReleases returns the releases of OpenShift that a base lacks.
func newReleases(bases []base.Base, releases []openshift.Release) []openshift.Release {
	return slices.DeleteFunc(slices.Clone(releases), func(r openshift.Release) bool {
		return !slices.ContainsFunc(bases, func(b base.Base) bool {
			has := func(img pinset.LockedImage) bool { return img.Pin == r.Image.String() }
			return !slices.ContainsFunc(b.Locked.Images, has)
		})
	})
}

// newArtifacts returns the OCI artifacts that not all bases have.
func newArtifacts(c *base.Common, artifacts []storage.Resolved) []storage.Resolved {
	return slices.DeleteFunc(slices.Clone(artifacts), func(a storage.Resolved) bool {
		return c.HasArtifact(a.Artifact.Pin)
	})
}

// openContents opens the stores of all bases of a thin delta; none for anything else. The caller closes them.
func openContents(ctx context.Context, o Options) (all []*base.Contents, err error) {
	if !o.Thin {
		return nil, nil
	}
	for _, name := range o.From {
		c, err := base.OpenContents(ctx, name, filepath.Dir(filepath.Clean(o.Out)))
		if err != nil {
			closeContents(all)
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// thinBases are the stores of bases for a thin delta.
func thinBases(contents []*base.Contents) (all []thin.Store) {
	for _, c := range contents {
		for _, s := range c.Stores {
			all = append(all, base.Thin(s))
		}
	}
	return all
}

func closeContents(all []*base.Contents) {
	for _, c := range all {
		_ = c.Close() // they were only read
	}
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
func estimateThin(c *base.Common, before base.Base, lock pinset.Lock) (bytes int64) {
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

func missing(c *base.Common, lock pinset.Lock) Missing {
	lock.Images = slices.Clone(lock.Images)
	for i := range lock.Images {
		lock.Images[i].Layers = c.Missing(lock.Images[i])
	}
	t := lock.Totals()
	return Missing{Layers: t.Layers, Bytes: t.Bytes}
}

// PlanDelta is Plan that also returns what a delta for the bases of o.From would contain; nil if there are
// no bases.
func PlanDelta(ctx context.Context, o Options) (pinset.Lock, *DeltaPlan, []string, error) {
	ignored, err := o.validate()
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	bases, refused, err := readBases(o)
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	lock, warnings, err := Plan(ctx, o)
	warnings = slices.Concat(ignored, refused, warnings)
	if err != nil || len(bases) == 0 {
		return lock, nil, warnings, err
	}
	common := base.NewCommon(bases, lock.Images)
	return lock, &DeltaPlan{
		Missing: missing(common, lock), ThinEstimate: estimateThin(common, bases[0], lock),
	}, warnings, nil
}
