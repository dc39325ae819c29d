package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// resolve asks the registries what the images of all sets are.
func resolve(ctx context.Context, o Options, client *storage.Client, in inputs) ([]storage.Resolved, error) {
	images := pinset.Union(in.sets...)
	if o.Hooks.Resolving != nil {
		o.Hooks.Resolving(len(images))
	}
	resolved, err := client.Resolve(ctx, images, o.Hooks.Resolved)
	if err != nil {
		return nil, err
	}
	for _, s := range in.sets {
		for _, img := range s.Images {
			in.note(img, pinset.Kind+"/"+s.Name)
		}
	}
	for i := range resolved {
		resolved[i].From, resolved[i].Tags = in.from[resolved[i].Image], in.tags[resolved[i].Image]
	}
	return resolved, nil
}

func makeLock(platform pinset.Platform, sets []pinset.Set, images []storage.Resolved) pinset.Lock {
	lock := pinset.Lock{Version: pinset.LockVersion, Platform: platform}
	for _, s := range sets {
		lock.Sets = append(lock.Sets, s.Lock())
	}
	for _, img := range images {
		lock.Images = append(lock.Images, img.LockedImage)
	}
	return lock
}

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
	if err := stage.Sum(ctx, p.store, p.live, o.Hooks); err != nil {
		return p, err
	}
	p.warnings = slices.Concat(warnings, d.warnings, d.config.Warnings())
	if confined := o.format().Describe().Confined; confined != "" {
		p.warnings = append(p.warnings, confined)
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

// files are pinbox's own in the store, in its folder there: what a node needs to know.
func (c contents) files(lock pinset.Lock) ([]format.File, error) {
	var b bytes.Buffer
	err := lock.Encode(&b)
	files := []format.File{{Name: layout.OwnLock, Perm: 0o644, Content: b.Bytes()}}
	for _, s := range c.sets {
		name := path.Join(layout.OwnSets, pinset.FileName(s.Name))
		files = append(files, format.File{Name: name, Perm: 0o644, Content: s.Render()})
	}
	if c.common != nil {
		files = append(files, format.File{Name: layout.OwnDelta, Perm: 0o644, Content: c.delta})
	}
	for _, f := range c.carried {
		files = append(files, format.File{Name: path.Join(ignition.FilesDir, f.Path), Perm: 0o600, Content: f.Content})
	}
	if c.program != nil {
		files = append(files, format.File{Name: layout.OwnProgram, Perm: 0o755, Program: c.program})
	}
	return files, err
}

// packing is how layers are packed.
func (o Options) packing() squashfs.Options {
	s := o.Appliance.Spec.Store
	opts := squashfs.Options{BlockSize: s.BlockSize, Compression: s.Compression}
	_ = opts.Validate() // as that of the appliance was
	return opts
}

// format is that of the store, which the appliance was validated with.
func (o Options) format() format.Format { return format.Of(o.Appliance.Spec.Store.Format) }

// writing is what it takes to write a store.
type writing struct {
	Options
	contents
	dir    string // in which it grows
	client *storage.Client
	kept   cache.Cache
}

// store writes the store. The lock that it returns knows the unpacked sizes.
func (w writing) store(ctx context.Context) (lock pinset.Lock, store artifact.Store, err error) {
	for lost := map[string]bool{}; ; {
		lock, store, err = w.once(ctx)
		var damage *squashfs.Damage
		if !errors.As(err, &damage) {
			return lock, store, err
		}
		// What a disk has lost of what was kept is made again.
		pack, ok := damage.Source.(*os.File)
		if !ok {
			return lock, store, err
		}
		if forgotten, failed := w.kept.Forget(pack); !forgotten || failed != nil || lost[pack.Name()] {
			return lock, store, errors.Join(err, failed) // the second time it is no accident
		}
		lost[pack.Name()] = true
	}
}

func (w writing) once(ctx context.Context) (lock pinset.Lock, made artifact.Store, err error) {
	store, err := w.format().Open(ctx, w.storeOptions())
	if err != nil {
		return lock, made, err
	}
	defer func() { err = errors.Join(err, store.Abort()) }()
	if w.Hooks.Filling != nil {
		w.Hooks.Filling(w.lock(w.fresh).Totals())
	}
	if err := store.Fill(ctx, w.client, w.images); err != nil {
		return lock, made, err
	}
	lock = w.lock(w.images)
	files, err := w.files(lock)
	if err != nil {
		return lock, made, err
	}
	for _, f := range files {
		err := store.Add(f)
		if errors.Is(err, format.ErrChanged) {
			err = fmt.Errorf("%w: %w", ErrNodeBinary, err)
		}
		if err != nil {
			return lock, made, err
		}
	}
	made, err = store.Close()
	return lock, made, err
}

func (w writing) lock(images []storage.Resolved) pinset.Lock {
	return makeLock(w.Appliance.Spec.Platform, w.sets, images)
}

func (w writing) storeOptions() format.Options {
	about := w.format().Describe()
	o := format.Options{
		Dir: w.dir, Name: about.File, ModTime: w.stamp(w.images), Packing: w.packing(),
		Cache: w.kept, Fits: w.checkOut, Hooks: w.Hooks,
	}
	if w.common != nil {
		o.Name = about.Delta
		o.AddBases = func(s *compose.Store) error { return w.common.AddTo(s, w.lock(w.images).Images) }
	}
	return o
}

// stamp is the time of files that are no image's own: it depends on nothing but the
// images, if none is asked for.
func (o Options) stamp(images []storage.Resolved) time.Time {
	if !o.ModTime.IsZero() {
		return o.ModTime
	}
	t := time.Unix(0, 0)
	for _, img := range images {
		if img.Created.After(t) {
			t = img.Created
		}
	}
	return t
}
