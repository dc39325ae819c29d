package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/firstboot"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/mirror"
	"github.com/pinbox/pinbox/builder/resolve"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// plan is everything that is known before the first layer is read.
type plan struct {
	// Result has the sets and the images.
	resolve.Result
	release pinset.ReleaseID
	// program is the pinbox-node of the release; zero if it is unknown.
	program pinset.Program
	spec    spec.Spec
	config  firstboot.Files
	// base is the base ISO; nil without one.
	base *iso.Base
	// material and client stay open while images are read.
	material source.Content
	client   *storage.Client
	packing  *squashfs.Compressor // of early fetches and then of the store; nil without early fetches
	warnings []string             // of material and client
}

// Close closes the client and the files on this machine that it reads.
func (p *plan) Close() error {
	err := errors.Join(p.material.Close(), p.base.Close())
	if p.client != nil {
		err = errors.Join(err, p.client.Close())
	}
	if p.packing != nil {
		p.packing.Close()
	}
	return err
}

// makePlan reads the sources, renders the configuration and resolves the images. It reports problems of
// the configuration and of the base ISO before the first request to a registry. The caller closes the plan.
//
// The folder tmp takes the documents of the images; "" keeps them in memory. If early has a folder, layers of images
// are fetched while others are resolved.
func makePlan(
	ctx context.Context, o Options, program pinset.Program, tmp string, early storage.PackOptions,
) (p plan, err error) {
	p.release, p.spec, p.program = o.Appliance.Metadata.ID(), o.Appliance.Spec, program
	if p.material, err = source.Read(ctx, p.spec.Sources, o.sourceOptions()); err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.spec.ISO.Base != "" {
		if p.base, err = iso.OpenBase(p.spec.ISO.Base); err != nil {
			return p, err
		}
	}
	if p.spec.OpenShift != nil {
		p.material.ForCluster(p.spec.OpenShift.PoolNames())
	}
	registries, mirrorWarnings, err := readMirrors(ctx, p.spec.Mirrors)
	if err != nil {
		return p, err
	}
	if bytes.Contains(registries, []byte(mirror.Digest)) && p.material.Unpinned() {
		p.material.RegistryReasons = append(p.material.RegistryReasons, fmt.Sprintf("mirrors of ImageDigestMirrorSets, and "+
			"imageDigestSources in %s, are asked for digests only: for tags, an ImageTagMirrorSet is needed",
			strings.Join(p.spec.Mirrors, ", ")))
	}
	if p.config, err = firstboot.Configure(o.Appliance, p.base, p.material.Sets, registries, program); err != nil {
		return p, err
	}
	o.Access.Registries, o.Access.Retrying = registries, o.Hooks.Retrying
	o.Access.Documents = storage.Documents{None: o.brief, Tmp: tmp}
	weakened := o.weakened()
	o.Access.Insecure = o.insecure()
	if p.client, err = storage.NewClient(o.Access, p.spec.Platform); err != nil {
		return p, err
	}
	if err := p.fetchEarly(ctx, o, early); err != nil {
		return p, err
	}
	p.warnings = slices.Concat(weakened, p.material.Warnings, mirrorWarnings, p.client.Warnings())
	if p.release.Number == 0 && (!o.Signer.IsZero() || p.config.HasKeys()) {
		p.warnings = append(p.warnings, "a signature does not tell an old store from a new one, and the release has no "+
			"number: nodes attach any signed store of the appliance; metadata.release or --release-number sets it")
	}
	if p.Result, err = resolve.Resolve(ctx, p.client, p.material, o.Lock, o.Hooks); err != nil {
		return p, p.explain(err)
	}
	if p.spec.OpenShift != nil {
		for i := range p.Sets {
			p.Sets[i].Version = p.spec.OpenShift.SetVersion()
		}
	}
	if p.material.Unpinned() { // there are more sets now
		if p.config, err = firstboot.Configure(o.Appliance, p.base, p.Sets, registries, program); err != nil {
			return p, err
		}
	}
	lock := p.lock(p.Images)
	if err := layout.CheckLimits(lock, p.Sets, p.documentBytes()); err != nil {
		return p, err
	}
	if !o.Locked {
		return p, nil
	}
	if drift := pinset.DescribeDifference(o.Lock, lock); drift != "" {
		return p, fmt.Errorf("%w:\n%s", ErrDrift, drift)
	}
	return p, nil
}

func (p *plan) fetchEarly(ctx context.Context, o Options, early storage.PackOptions) (err error) {
	if early.Tmp == "" {
		return nil
	}
	packing := o.packing()
	packing.Tmp = early.Tmp
	if p.packing, err = squashfs.NewCompressor(packing); err != nil {
		return err
	}
	early.Compressor, early.Reading = p.packing, format.Reading(o.Hooks)
	p.client.FetchEarly(ctx, early)
	return nil
}

// sourceOptions returns the options for reading sources. Compressed archives are unpacked beside the
// output folder, where there must be enough space for the images anyway.
func (o Options) sourceOptions() source.Options {
	options := source.Options{
		Appliance: o.Appliance.Metadata.Name, Platform: o.Appliance.Spec.Platform,
		DefaultRegistry: o.Appliance.Spec.DefaultRegistry, AnyArchitecture: o.Appliance.Spec.AnyArchitecture,
	}
	if o.Out != "" {
		options.Tmp = filepath.Dir(filepath.Clean(o.Out))
	}
	return options
}

// readMirrors returns the registries.conf(5) drop-in for all mirrors; nil if there are none.
func readMirrors(ctx context.Context, paths []string) (registries []byte, warnings []string, err error) {
	rules, warnings, err := source.ReadMirrors(ctx, paths)
	if err != nil {
		return nil, nil, err
	}
	merged, err := mirror.Merge(rules)
	return mirror.Render(merged), warnings, err
}

// explain adds to an error of a registry what may have caused it.
func (p *plan) explain(err error) error {
	switch {
	case errors.Is(err, storage.ErrUnauthorized):
		return fmt.Errorf("%w\n%s", err, strings.Join(p.client.Warnings(), "\n"))
	case errors.Is(err, storage.ErrRegistry), errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("%w\n%s", err, strings.Join(p.material.RegistryReasons, "\n"))
	}
	return err
}

func (p *plan) allWarnings() []string {
	return slices.Concat(p.warnings, p.Warnings, p.config.Warnings(), p.volumeWarnings(),
		p.artifactWarnings())
}

// artifactWarnings say which CRI-O reads OCI artifacts of a store; it is not known which one the nodes have.
func (p *plan) artifactWarnings() []string {
	if len(p.Artifacts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("nodes find the %d OCI artifacts, such as %s, with CRI-O 1.36 or newer: "+
		"an older one reads none of a store, and pulls them", len(p.Artifacts), p.Artifacts[0].Image)}
}

// volumeWarnings name the images that pods cannot mount as image volumes.
func (p *plan) volumeWarnings() []string {
	var names []string
	for _, img := range p.Images {
		if img.Volume {
			names = append(names, img.Pin)
		}
	}
	if len(names) == 0 || p.spec.Node.ImageVolumes == layout.ImageVolumesCopy {
		return nil
	}
	return []string{fmt.Sprintf("pods that mount %s as an image volume fail with \"layer not known\": CRI-O mounts none "+
		"out of a read-only store; spec.node.imageVolumes: copy makes nodes copy these images into CRI-O's own store",
		strings.Join(names, ", "))}
}

// documentBytes is the size of the manifests and configurations of all images.
func (p *plan) documentBytes() (n int64) {
	for _, img := range p.Images {
		n += img.DocumentBytes
	}
	return n
}

// lock returns the lock of the sets with the images.
func (p *plan) lock(images []storage.Resolved) pinset.Lock {
	lock := pinset.Lock{Version: pinset.LockVersion, ReleaseID: p.release, Platform: p.spec.Platform}
	for _, s := range p.Sets {
		lock.Sets = append(lock.Sets, s.Lock())
	}
	for _, img := range images {
		lock.Images = append(lock.Images, img.LockedImage)
	}
	lock.Artifacts = locked(p.Artifacts)
	if p.program.Digest != "" {
		lock.Program = &p.program
	}
	return lock
}
