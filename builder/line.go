package builder

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// recipe is what an appliance and a delta differ in.
type recipe struct {
	// program is the pinbox-node in an appliance's store; nil of a delta.
	program *os.File
	// bases are what a delta is made for; nil of an appliance.
	bases []base.Base
}

// product is what the line has made.
type product struct {
	contents
	// lock knows the unpacked sizes.
	lock     pinset.Lock
	store    artifact.Store
	warnings []string
}

// run is the line from inputs to a folder, which appears complete or not at all. Each stage is complete
// before the next one begins.
func run(ctx context.Context, o Options, r recipe) (p product, err error) {
	kept, warnings, err := o.openCache()
	if err != nil {
		return p, err
	}
	defer func() { p.warnings = append(p.warnings, o.Cache.prune(kept, err)...) }()
	stage, err := artifact.OpenStage(o.Out)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, stage.Discard()) }()

	d, err := decide(ctx, o)
	if err != nil {
		return p, err
	}
	defer d.Close()
	if p.contents, err = r.contents(o, d); err != nil {
		return p, err
	}
	if err := o.checkSpace(p.contents, kept); err != nil {
		return p, err
	}
	w := writing{o, p.contents, stage.Dir, d.client, kept}
	if p.lock, p.store, err = w.store(ctx); err != nil {
		return p, err
	}
	if err := stage.WriteTexts(p.lock, d.sets, p.texts); err != nil {
		return p, err
	}
	if err := stage.WriteISO(ctx, p.store, p.live, o.Hooks); err != nil {
		return p, err
	}
	if err := stage.WriteSums(ctx, p.store, o.Hooks); err != nil {
		return p, err
	}
	p.warnings = slices.Concat(warnings, d.warnings, d.config.Warnings())
	if limitation := o.limitation(); limitation != "" {
		p.warnings = append(p.warnings, limitation)
	}
	return p, stage.Publish()
}

// contents are what goes into a folder, and into the store in it.
type contents struct {
	sets   []pinset.Set
	images []storage.Resolved
	// fresh are the images with those of their layers that are read.
	fresh   []storage.Resolved
	program *os.File
	carried []ignition.File
	// common is what the bases of a delta have, delta its description; nil of an appliance.
	common *base.Common
	delta  []byte
	// texts are those of the folder, beside lock and manifests.
	texts map[string]artifact.Text
	live  artifact.LiveISO
}

func (r recipe) contents(o Options, d decision) (contents, error) {
	c := contents{
		sets: d.sets, images: d.images, fresh: d.images, program: r.program, carried: d.config.Carried,
		texts: d.config.Texts(), live: d.config.LiveISO(o.Appliance.Spec),
	}
	if r.bases == nil {
		return c, nil
	}
	locked := makeLock(o.Appliance.Spec.Platform, d.sets, d.images).Images
	common := base.NewCommon(o.Appliance.Metadata.Name, r.bases, locked)
	var text bytes.Buffer
	err := common.Delta.Encode(&text)
	c.common, c.delta, c.fresh = &common, text.Bytes(), fresh(common, d.images)
	c.texts = map[string]artifact.Text{artifact.DeltaFile: {Content: c.delta, Perm: 0o644}}
	return c, err
}
