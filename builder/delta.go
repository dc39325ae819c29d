package builder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNoBase says that a delta is asked for without what it is to be over.
var ErrNoBase = errors.New("a delta needs to know what nodes have")

// Missing is what nodes lack of a lock, each blob counted once.
type Missing struct {
	Layers int   `json:"layers"`
	Bytes  int64 `json:"bytes"` // of those blobs
}

// DeltaResult is the delta that was built.
type DeltaResult struct {
	Name     string          `json:"name"`
	Platform pinset.Platform `json:"platform"`
	Out      string          `json:"out"`
	// Totals are those of the whole lock, New what of it is in the delta.
	Totals pinset.Totals `json:"totals"`
	New    Missing       `json:"new"`
	// Bases that it was made for. A node has one of them.
	Bases []pinset.Base `json:"bases"`
	// Store is the store's name in the folder, StoreSize its size in bytes.
	Store       string   `json:"store"`
	StoreSize   int64    `json:"storeSize"`
	StoreDigest string   `json:"storeDigest"`
	Warnings    []string `json:"warnings,omitempty"`
	// Seconds that the build took.
	Seconds float64 `json:"seconds"`
}

// Delta makes the folder of a delta: a store with what nodes with any one of o.From
// lack, and the records of every image. It appears complete, or not at all.
func Delta(ctx context.Context, o Options) (DeltaResult, error) {
	started := time.Now()
	left, err := o.validateDelta()
	if err != nil {
		return DeltaResult{}, err
	}
	bases, err := base.Read(o.From, o.Appliance.Spec.Platform)
	if err != nil {
		return DeltaResult{}, err
	}
	p, err := run(ctx, o, recipe{bases: bases})
	if err != nil {
		return DeltaResult{}, err
	}
	return DeltaResult{
		Name: o.Appliance.Metadata.Name, Platform: p.lock.Platform, Out: filepath.Clean(o.Out), Totals: p.lock.Totals(),
		New: missing(*p.common, p.lock), Bases: p.common.Delta.Bases,
		Store: p.store.Name, StoreSize: p.store.Size, StoreDigest: p.store.Digest(),
		Warnings: slices.Concat(left, p.warnings), Seconds: time.Since(started).Seconds(),
	}, nil
}

// validateDelta leaves out what is not a delta's, and warns of that.
func (o *Options) validateDelta() (warnings []string, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if len(o.From) == 0 {
		return nil, ErrNoBase
	}
	s := &o.Appliance.Spec
	if o.format().Describe().Delta == "" {
		return nil, fmt.Errorf("%w: spec.store.format is %s, and a delta is a squashfs", spec.ErrAppliance, s.Store.Format)
	}
	var kept []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"spec.ignition", !reflect.ValueOf(s.Ignition).IsZero()},
		{"spec.iso", !reflect.ValueOf(s.ISO).IsZero()},
		{"spec.mirrors", len(s.Mirrors) > 0},
		{"spec.node.pullSecret", s.Node.PullSecret != ""},
	} {
		if field.set {
			kept = append(kept, field.name)
		}
	}
	if len(kept) > 0 {
		warnings = append(warnings,
			"a delta changes no configuration of nodes, where these stay what they were: "+strings.Join(kept, ", "))
	}
	s.Ignition, s.ISO, s.Node = spec.Ignition{}, spec.ISO{}, spec.Node{}
	return warnings, nil
}

// fresh gives the images with those of their layers that are to be read.
func fresh(c base.Common, images []storage.Resolved) []storage.Resolved {
	images = slices.Clone(images)
	for i := range images {
		images[i].Layers = c.Missing(images[i].LockedImage)
	}
	return images
}

func missing(c base.Common, lock pinset.Lock) Missing {
	lock.Images = slices.Clone(lock.Images)
	for i := range lock.Images {
		lock.Images[i].Layers = c.Missing(lock.Images[i])
	}
	t := lock.Totals()
	return Missing{t.Layers, t.Bytes}
}

// PlanDelta is Plan that also says what a delta over o.From would hold; nil without
// them.
func PlanDelta(ctx context.Context, o Options) (pinset.Lock, *Missing, []string, error) {
	if len(o.From) == 0 {
		lock, warnings, err := Plan(ctx, o)
		return lock, nil, warnings, err
	}
	kept, err := o.validateDelta()
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	bases, err := base.Read(o.From, o.Appliance.Spec.Platform)
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	lock, warnings, err := Plan(ctx, o)
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	lacking := missing(base.NewCommon(o.Appliance.Metadata.Name, bases, lock.Images), lock)
	return lock, &lacking, append(kept, warnings...), nil
}
