package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/firstboot"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/runbook"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/signature"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// ErrDrift says that the inputs differ from the lock of a locked build.
var ErrDrift = fault.New(fault.Damaged, "the inputs differ from the lock",
	"`pinbox lock` locks the present inputs; without --locked, the lock only fixes tags")

// Options are the parameters of a plan or a build.
type Options struct {
	// Appliance says what to build.
	Appliance spec.Appliance
	// Out is the folder to make. It must not exist, or be empty.
	Out string
	// From names the bases of a delta: folders of appliances or of deltas, ISOs, locks. A node has one of them. Without
	// bases, a build makes an appliance.
	From []string
	// Bases are the bases of a delta for sites, in place of From; nil for anything else.
	Bases []base.Base
	// Thin makes a thin delta, for which the bases must have contents.
	Thin bool
	// Access says how to reach registries.
	Access storage.Access
	// Lock of an earlier build: its tags keep their digests.
	Lock pinset.Lock
	// Locked ends the build with ErrDrift if the result would differ from the lock.
	Locked bool
	// NodeBinary is the pinbox-node to use if the appliance names none.
	NodeBinary string
	// Cache keeps packs for later builds; the zero value keeps nothing.
	Cache Cache
	// ModTime is the modification time of files that do not come from an image; zero means the time of the
	// newest image.
	ModTime time.Time
	// Signer signs the sums and the store; the zero value signs nothing.
	Signer signature.Signer
	// Version of pinbox, for the provenance statement; "" if it is unknown.
	Version string
	// Inputs are the flags that name inputs, for the provenance statement.
	Inputs map[string][]string
	// Hooks report progress.
	Hooks progress.Hooks
}

// makesDelta reports whether the options are those of a delta.
func (o *Options) makesDelta() bool { return len(o.From) > 0 || o.Bases != nil }

// validate checks the options. It removes from the appliance what a delta cannot change, and warns of it.
func (o *Options) validate() (warnings []string, err error) {
	if err := o.Appliance.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", spec.ErrAppliance, err)
	}
	if err := checkNumber(o.Appliance); err != nil || !o.makesDelta() {
		return nil, err
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
	s.Ignition = spec.Ignition{}
	s.ISO = spec.ISO{}
	s.Node = spec.Node{ImageVolumes: s.Node.ImageVolumes, Binary: s.Node.Binary}
	return warnings, nil
}

// checkNumber checks that the release has a number if the nodes attach releases by themselves.
func checkNumber(a spec.Appliance) error {
	if a.Spec.Node.AutoAttach && a.Metadata.Release == 0 {
		return fmt.Errorf("spec.node.autoAttach: %w", pinset.ErrNoNumber)
	}
	return nil
}

// formatOf returns the format of the store. The options must be valid.
func formatOf(o Options) format.Format {
	if o.Thin {
		return format.OfThin()
	}
	return format.Of(o.Appliance.Spec.Store.Format)
}

// Result describes an appliance or a delta that was built.
type Result struct {
	// ReleaseID is the release that nodes have with it.
	pinset.ReleaseID
	Platform pinset.Platform `json:"platform"`
	Out      string          `json:"out"`
	// Totals count all images of the release, and New the layers in a delta; nil for an appliance.
	Totals pinset.Totals `json:"totals"`
	New    *Missing      `json:"new,omitempty"`
	// Bases that a delta was made for. A node has one of them.
	Bases []pinset.Base `json:"bases,omitempty"`
	// Store is the store's name in the folder, StoreSize its size in bytes.
	Store     string `json:"store"`
	StoreSize int64  `json:"storeSize"`
	// Format of the store.
	Format format.Description `json:"-"`
	// NodeStore is the path or the partition where the node expects the store of an appliance.
	NodeStore string `json:"nodeStore,omitempty"`
	// StoreDigest is the digest of the store's file; "" if the store is a folder.
	StoreDigest string `json:"storeDigest,omitempty"`
	// StoreRootHash is the root of the store's hash tree; "" if the format has none.
	StoreRootHash string `json:"storeRootHash,omitempty"`
	// Thin is about the store that nodes make of a thin delta; nil for anything else.
	Thin     *pinset.Thin `json:"thin,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
	// Private says that the configs, and the files that carry them, can be read by their owner only, since the
	// configs have a pull secret or Butane files.
	Private bool `json:"private,omitempty"`
	// ISO is the path of the live ISO; "" without one.
	ISO string `json:"iso,omitempty"`
	// Medium is the volume label of a separate medium for the store; "" without one.
	Medium string `json:"medium,omitempty"`
	// StoreURL is where the node fetches the store; "" if it does not.
	StoreURL string `json:"storeURL,omitempty"`
	// Installs is the disk that the ISO installs to; "" if it does not install.
	Installs string `json:"installs,omitempty"`
	// Apply are the commands that bring the manifests to an OpenShift cluster, in their order; nil without spec.openshift,
	// and empty if there is nothing to apply.
	Apply []string `json:"apply,omitempty"`
	// Seconds is the duration of the build.
	Seconds float64 `json:"seconds"`
}

// Build makes the folder of an appliance or, if the options name bases, of a delta, whose store has the records of all
// images and those layers that not all bases have. The folder appears complete, or not at all.
func Build(ctx context.Context, o Options) (r Result, err error) {
	started := time.Now()
	ignored, err := o.validate()
	if err != nil {
		return r, err
	}
	s := o.Appliance.Spec
	storeFormat := formatOf(o)
	about := storeFormat.Describe()
	if err := about.CheckWritable(); err != nil {
		return r, err
	}
	if !about.UsesCache {
		o.Cache = Cache{}
	}

	// Open what is read, and the folder that is written.
	bases, refused, err := readBases(o)
	if err != nil {
		return r, err
	}
	program, unchanged, err := openProgram(o)
	if err != nil {
		return r, err
	}
	defer program.Close() // nil if there is none
	contents, err := openContents(ctx, o)
	if err != nil {
		return r, err
	}
	defer closeContents(contents)
	packs, uncached, err := o.Cache.open()
	if err != nil {
		return r, err
	}
	defer func() { r.Warnings = append(r.Warnings, o.Cache.prune(packs, err)...) }()
	stage, err := artifact.OpenStage(o.Out)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stage.Discard()) }()

	// Plan: read the sources, render the configuration, and resolve each image while layers of others are fetched.
	packing := storage.PackOptions{Cache: packs, Tmp: stage.Dir, Reading: format.Reading(o.Hooks)}
	if about.UsesCache {
		if packing.Compressor, err = squashfs.NewCompressor(compression(s.Store, stage.Dir)); err != nil {
			return r, err
		}
		defer packing.Compressor.Close()
	}
	p, err := makePlan(ctx, o, program, packing)
	if err != nil {
		return r, err
	}
	defer p.Close()

	// Space: for all, or for what not all bases of a delta have.
	var delta *base.Common
	images := p.images
	artifacts := p.artifacts
	added := program
	layerBytes := p.lock.Totals().Bytes
	if o.makesDelta() {
		delta = base.NewCommon(bases, p.lock.Images)
		images = newLayers(delta, p.images)
		artifacts = newArtifacts(delta, p.artifacts)
		layerBytes = missing(delta, p.lock).Bytes
		if delta.HasProgram(p.program.Digest) {
			added = nil
		}
	}
	if err := checkSpace(o, images, artifacts, added, packs); err != nil {
		return r, err
	}

	// Store: layers, records of the images, and files of pinbox. It sets the unpacked sizes of layers in the lock.
	options := format.Options{
		Dir: stage.Dir, Name: about.File, ModTime: modTime(o, p.images), Packing: packing, Program: added,
		CheckSize: func(store int64) error { return checkStore(o, store) }, Hooks: o.Hooks,
	}
	if delta != nil {
		options.Name = about.Delta
		options.AddBases = func(store *compose.Store) error { return delta.AddTo(store, p.lock.Images) }
		options.Thin = format.Thin{Bases: thinBases(contents), Sources: delta.Layers(), Delta: &delta.Delta}
	}
	files := append(artifactFiles(ctx, p.client, artifacts, packs, o.Hooks), ownFiles(p, delta, added)...)
	store, err := writeStore(ctx, storeFormat, options, p, files, layerBytes+p.lock.Totals().ArtifactBytes)
	if err != nil {
		return r, err
	}

	// Texts: the lock, the PinnedImageSets, and the configuration or the description of the delta.
	var config firstboot.Files
	texts := map[string]artifact.Text{}
	if delta == nil {
		if config, err = p.config.WithStore(store); err != nil {
			return r, err
		}
		texts = config.Texts()
	} else {
		var text bytes.Buffer
		if err := delta.Delta.Encode(&text); err != nil {
			return r, err
		}
		texts[layout.DeltaFile] = artifact.Text{Content: text.Bytes(), Perm: 0o644}
	}
	setsDir := artifact.ManifestsDir
	if s.OpenShift != nil {
		setsDir = artifact.OpenShiftSetsDir
		content, err := openshift.Signatures(p.releases)
		if err != nil {
			return r, err
		}
		if content != nil {
			texts[path.Join(artifact.ManifestsDir, openshift.SignaturesFile)] = artifact.Text{Content: content, Perm: 0o644}
		}
	}
	if s.Node.Store.URL != "" { // from where the node fetches its program, too
		content, err := io.ReadAll(io.NewSectionReader(program, 0, math.MaxInt64))
		if err != nil {
			return r, err
		}
		texts[artifact.ProgramFile] = artifact.Text{Content: content, Perm: 0o755}
	}
	lacking := newReleases(bases, p.releases)
	book := runbookOf(o, p, delta, store, lacking)
	texts[runbook.File] = artifact.Text{Content: runbook.Markdown(book), Perm: 0o644}
	texts[runbook.Script] = artifact.Text{Content: runbook.Shell(book), Perm: 0o755}
	if err := stage.WriteTexts(store, p.lock, setsDir, p.sets, texts); err != nil {
		return r, err
	}
	if config.Private() && len(config.StoreFiles) > 0 && store.Sum != "" { // a folder has the modes of its files
		if err := os.Chmod(stage.Path(store.Name), 0o600); err != nil {
			return r, err
		}
	}

	// ISO, with the signature of the store, and with the provenance statement of all but itself.
	if err := stage.SignWith(o.Signer, store); err != nil {
		return r, err
	}
	statement := describeBuild(o, p, delta)
	subjects, err := stage.Subjects(ctx, store)
	if err != nil {
		return r, err
	}
	if p.base != nil {
		if err := writeISO(ctx, stage, store, config.LiveISO(), statement, subjects, o.Hooks); err != nil {
			return r, err
		}
	}

	// Sums, with that of the statement.
	if err := writeStatement(stage, statement, subjects); err != nil {
		return r, err
	}
	if err := stage.WriteSums(ctx, store.Name, subjects, o.Hooks); err != nil {
		return r, err
	}

	// Publish.
	r = Result{
		ReleaseID: p.lock.ReleaseID, Platform: p.lock.Platform, Out: filepath.Clean(o.Out), Totals: p.lock.Totals(),
		Store: store.Name, StoreSize: store.Size, StoreDigest: store.Digest(), StoreRootHash: store.RootHash(),
		Format: about, Installs: s.ISO.InstallDevice, Medium: s.Node.Store.VolumeLabel, StoreURL: s.Node.Store.URL,
		Warnings: slices.Concat(ignored, unchanged, refused, uncached, p.warnings, about.Limitations()),
		Private:  config.Private(),
	}
	if delta == nil {
		r.NodeStore = s.Config(nil, nil).Store.NodePath()
	} else {
		layers := missing(delta, p.lock)
		r.New = &layers
		r.Bases = delta.Delta.Bases
		r.Thin = delta.Delta.Thin
	}
	if s.OpenShift != nil {
		manifests := filepath.Join(r.Out, artifact.ManifestsDir)
		commands := openshift.Apply(*s.OpenShift, manifests, p.sets)
		if delta != nil { // the nodes have the rest
			commands = openshift.ApplySets(*s.OpenShift, manifests, p.sets)
			commands = append(commands, openshift.Update(manifests, lacking)...)
			r.Warnings = append(r.Warnings, openshift.Unsigned(lacking)...)
		}
		r.Apply = append([]string{}, commands...) // not nil
	}
	if p.base != nil {
		r.ISO = filepath.Join(o.Out, artifact.ISOFile)
	}
	if err := stage.Publish(); err != nil {
		return r, err
	}
	r.Seconds = time.Since(started).Seconds()
	return r, nil
}
