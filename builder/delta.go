package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// The files of a delta's folder, beside lock, manifests and sums.
const (
	DeltaStoreFile = "delta.squashfs"
	DeltaFile      = "delta.json"
)

// ErrNoBase says that a delta is asked for without what it is to be over.
var ErrNoBase = errors.New("a delta needs to know what nodes have")

// Lacking is what nodes lack of a lock, each blob counted once.
type Lacking struct {
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
	New    Lacking       `json:"new"`
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
func Delta(ctx context.Context, o Options) (result DeltaResult, err error) {
	started := time.Now()
	kept, err := o.validateDelta()
	if err != nil {
		return DeltaResult{}, err
	}
	bases, err := readBases(o.From, o.Appliance.Spec.Platform)
	if err != nil {
		return DeltaResult{}, err
	}
	unkept, err := o.settle()
	if err != nil {
		return DeltaResult{}, err
	}
	defer func() { result.Warnings = append(result.Warnings, o.Cache.tidy(err)...) }()
	stage, err := openStage(o.Out)
	if err != nil {
		return DeltaResult{}, err
	}
	defer func() { err = errors.Join(err, stage.discard()) }()

	d, err := decide(ctx, o)
	if err != nil {
		return DeltaResult{}, err
	}
	defer d.Close()
	lock := makeLock(o.Appliance.Spec.Platform, d.sets, d.images)
	under := newFoundation(o.Appliance.Metadata.Name, bases, lock.Images)
	lock, store, err := writeDelta(ctx, o, stage, d, under)
	if err != nil {
		return DeltaResult{}, err
	}
	return DeltaResult{
		Name: o.Appliance.Metadata.Name, Platform: lock.Platform, Out: filepath.Clean(o.Out), Totals: lock.Totals(), New: under.lacks(lock), Bases: under.delta.Bases,
		Store: store.name, StoreSize: store.size, StoreDigest: store.digest(),
		Warnings: slices.Concat(kept, unkept, d.warnings), Seconds: time.Since(started).Seconds(),
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
	spec := &o.Appliance.Spec
	if spec.Store.Format.isFolder() {
		return nil, fmt.Errorf("%w: spec.store.format is %s, and a delta is a squashfs", ErrAppliance, spec.Store.Format)
	}
	var kept []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"spec.ignition", !reflect.ValueOf(spec.Ignition).IsZero()},
		{"spec.iso", !reflect.ValueOf(spec.ISO).IsZero()},
		{"spec.mirrors", len(spec.Mirrors) > 0},
		{"spec.node.pullSecret", spec.Node.PullSecret != ""},
	} {
		if field.set {
			kept = append(kept, field.name)
		}
	}
	if len(kept) > 0 {
		warnings = append(warnings, "a delta changes no configuration of nodes, where these stay what they were: "+strings.Join(kept, ", "))
	}
	spec.Ignition, spec.ISO, spec.Node = IgnitionSpec{}, ISOSpec{}, NodeSpec{}
	return warnings, nil
}

// writeDelta writes all that is in the folder, and publishes it. The lock that it
// returns knows the unpacked sizes.
func writeDelta(ctx context.Context, o Options, s *stage, d decision, under foundation) (lock pinset.Lock, store stored, err error) {
	if err := o.checkSpace(under.fresh(d.images), 0); err != nil {
		return lock, store, err
	}
	var about bytes.Buffer
	if err := under.delta.Encode(&about); err != nil {
		return lock, store, err
	}
	if lock, store, err = writeStore(ctx, o, s, d.client, contents{sets: d.sets, images: d.images, under: &under}); err != nil {
		return lock, store, err
	}
	if err := s.writeTexts(lock, d.sets, map[string]text{DeltaFile: {about.Bytes(), 0o644}}); err != nil {
		return lock, store, err
	}
	if err := s.sum(ctx, o.Appliance.Spec, configFiles{}, store, o.Hooks); err != nil {
		return lock, store, err
	}
	return lock, store, s.publish()
}

// fresh gives the images with those of their layers that are to be read.
func (f foundation) fresh(images []storage.Resolved) []storage.Resolved {
	images = slices.Clone(images)
	for i := range images {
		images[i].Layers = f.lacking(images[i].LockedImage)
	}
	return images
}

func (f foundation) lacks(lock pinset.Lock) Lacking {
	lock.Images = slices.Clone(lock.Images)
	for i := range lock.Images {
		lock.Images[i].Layers = f.lacking(lock.Images[i])
	}
	t := lock.Totals()
	return Lacking{t.Layers, t.Bytes}
}

// PlanDelta is Plan that also says what a delta over o.From would hold; nil without
// them.
func PlanDelta(ctx context.Context, o Options) (pinset.Lock, *Lacking, []string, error) {
	if len(o.From) == 0 {
		lock, warnings, err := Plan(ctx, o)
		return lock, nil, warnings, err
	}
	kept, err := o.validateDelta()
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	bases, err := readBases(o.From, o.Appliance.Spec.Platform)
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	lock, warnings, err := Plan(ctx, o)
	if err != nil {
		return pinset.Lock{}, nil, nil, err
	}
	lacking := newFoundation(o.Appliance.Metadata.Name, bases, lock.Images).lacks(lock)
	return lock, &lacking, append(kept, warnings...), nil
}
