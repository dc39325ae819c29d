package builder

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// recipe is the difference between an appliance and a delta.
type recipe struct {
	// program is the pinbox-node of the release; nil for a delta after which nodes keep theirs.
	program *os.File
	// bases are the bases of a delta; nil for an appliance.
	bases []base.Base
	// opened are the stores of the bases; nil unless the delta is thin.
	opened []*base.Contents
}

// product is the result of run.
type product struct {
	contents
	// lock has the unpacked sizes of all layers.
	lock     pinset.Lock
	store    artifact.Store
	warnings []string
	// node is the pinbox-node of the release; zero if it is unknown.
	node pinset.Program
	// private says that only their owner may read the configs.
	private bool
}

// run makes the folder of an appliance or of a delta. The folder appears complete, or not at all.
func run(ctx context.Context, o Options, r recipe) (made product, err error) {
	packs, warnings, err := o.openCache()
	if err != nil {
		return made, err
	}
	defer func() { made.warnings = append(made.warnings, o.Cache.prune(packs, err)...) }()
	stage, err := artifact.OpenStage(o.Out)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, stage.Discard()) }()

	if r.program != nil {
		if made.node, err = pinset.ReadProgram(r.program); err != nil {
			return made, err
		}
	}
	p, err := makePlan(ctx, o, made.node, stage.Dir, r.early(o, storage.PackOptions{Cache: packs, Tmp: stage.Dir}))
	if err != nil {
		return made, err
	}
	defer p.Close()
	if made.contents, err = r.contents(p); err != nil {
		return made, err
	}
	if err := o.checkSpace(made.contents, packs); err != nil {
		return made, err
	}
	w := storeWriter{o, made.contents, p, stage.Dir, packs}
	if made.lock, made.store, err = w.write(ctx); err != nil {
		return made, err
	}
	if r.bases == nil {
		config, err := p.config.WithStore(made.store)
		if err != nil {
			return made, err
		}
		made.texts, made.live, made.private = config.Texts(), config.LiveISO(p.spec), config.Private()
		if p.spec.Node.Store.URL != "" {
			program, err := r.readProgram()
			if err != nil {
				return made, err
			}
			made.texts[artifact.ProgramFile] = artifact.Text{Content: program, Perm: 0o755}
		}
	}
	if err := stage.WriteTexts(made.store, made.lock, p.Sets, made.texts); err != nil {
		return made, err
	}
	if err := o.complete(ctx, stage, made); err != nil {
		return made, err
	}
	made.warnings = slices.Concat(warnings, p.allWarnings())
	if limitation := o.limitation(); limitation != "" {
		made.warnings = append(made.warnings, limitation)
	}
	return made, stage.Publish()
}

// early says how to pack layers while images are resolved: not if some may not be needed, or if none is packed.
func (r recipe) early(o Options, packing storage.PackOptions) storage.PackOptions {
	if r.bases != nil || !o.format().Describe().UsesCache {
		return storage.PackOptions{}
	}
	return packing
}

// complete writes what is made of the store and the texts: the provenance statement, the ISO, the sums and the
// signatures.
func (o Options) complete(ctx context.Context, stage *artifact.Stage, made product) error {
	if made.private && len(made.storeFiles) > 0 && made.store.Sum != "" { // a folder has the modes of its files
		if err := os.Chmod(stage.Path(made.store.Name), 0o600); err != nil {
			return err
		}
	}
	if err := stage.SignWith(o.Signer, made.store); err != nil {
		return err
	}
	var err error
	if base := made.live.Base; base != nil {
		o.Hooks.Begin("hash "+filepath.Base(base.Name), base.Size)
		if made.live.BaseSum, _, err = artifact.SumReader(ctx, base.Reader(), o.Hooks); err != nil {
			return err
		}
	}
	subjects, err := o.state(ctx, stage, made, false)
	if err == nil && made.live.Base != nil {
		if err = stage.WriteISO(ctx, made.store, made.live, o.Hooks); err == nil {
			subjects, err = o.state(ctx, stage, made, true)
		}
	}
	if err != nil {
		return err
	}
	return stage.WriteSums(ctx, made.store.Name, subjects, o.Hooks)
}

// contents is what goes into the folder, and into its store.
type contents struct {
	// images have the layers that the store gets: all of an appliance's, the new ones of a delta's.
	images []storage.Resolved
	// artifacts are the OCI artifacts that the store gets, and blobs theirs, each once.
	artifacts []storage.Resolved
	blobs     []pinset.LockedBlob
	// program is the pinbox-node that the store gets; nil for a delta whose bases have the same one, or
	// after which nodes keep theirs.
	program *os.File
	// storeFiles are files for the node that do not fit into its Ignition config.
	storeFiles []provision.File
	// common is what the bases of a delta have in common, delta the description of the delta; nil for an
	// appliance.
	common *base.Common
	delta  []byte
	// bases are the stores of the bases of a thin delta; nil for any other.
	bases []*base.Contents
	// texts are small files of the folder, other than the lock and the manifests.
	texts map[string]artifact.Text
	live  artifact.LiveISO
}

func (r recipe) readProgram() ([]byte, error) {
	fi, err := r.program.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(r.program, 0, fi.Size()))
}

func (r recipe) contents(p plan) (contents, error) {
	c := contents{
		images: p.Images, program: r.program, storeFiles: p.config.StoreFiles,
	}
	if r.bases == nil {
		c.artifacts, c.blobs = p.Artifacts, blobsOf(p.Artifacts)
		return c, nil
	}
	if !slices.ContainsFunc(r.bases, func(b base.Base) bool { return !b.HasProgram(p.program.Digest) }) {
		c.program = nil
	}
	common := base.NewCommon(r.bases, p.lock(p.Images).Images)
	for i := range r.bases {
		r.bases[i].Locked.Images = nil // common has what is needed of them
	}
	var text bytes.Buffer
	err := common.Delta.Encode(&text)
	c.common, c.delta, c.images = &common, text.Bytes(), newLayers(common, p.Images)
	c.bases = r.opened
	c.artifacts = newArtifacts(common, p.Artifacts)
	c.blobs = blobsOf(c.artifacts)
	c.texts = map[string]artifact.Text{artifact.DeltaFile: {Content: c.delta, Perm: 0o644}}
	return c, err
}
