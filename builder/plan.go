package builder

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/firstboot"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/mirror"
	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/resolve"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// plan is everything that is known before the first layer is read.
type plan struct {
	spec spec.Spec
	// program is the pinbox-node of the release; zero if it is unknown.
	program pinset.Program
	config  firstboot.Files
	// base is the base ISO; nil without one.
	base *iso.Base
	// material and client stay open while images are read.
	material source.Content
	client   *storage.Client
	// sets, images, OCI artifacts and releases of OpenShift are known once they are resolved, and the lock has all of
	// them. It shares the layers of the images: it has their unpacked sizes once a store is filled.
	sets      []pinset.Set
	images    []storage.Resolved
	artifacts []storage.Resolved
	releases  []openshift.Release
	lock      pinset.Lock
	warnings  []string
}

// Close closes the client and the files on this machine that it reads.
func (p *plan) Close() error {
	err := errors.Join(p.material.Close(), p.base.Close())
	if p.client != nil {
		err = errors.Join(err, p.client.Close())
	}
	return err
}

// makePlan reads the sources, renders the configuration and resolves the images. program is that of the release, or
// nil. With a compressor, layers of images of an appliance are fetched while others are resolved; a delta may not need
// them. The folder for temporary files takes the documents of the images; "" leaves them out, for a lock. The caller
// closes the plan.
func makePlan(ctx context.Context, o Options, program *os.File, packing storage.PackOptions) (*plan, error) {
	p := &plan{spec: o.Appliance.Spec}
	err := p.readInputs(ctx, o, program, packing.Tmp)
	if err == nil && packing.Compressor != nil && !o.makesDelta() {
		p.client.FetchEarly(ctx, packing)
	}
	if err == nil {
		err = p.resolve(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// readInputs reads the sources and renders the configuration: it reports problems of both, and of the base ISO, before
// the first request to a registry.
func (p *plan) readInputs(ctx context.Context, o Options, program *os.File, tmp string) (err error) {
	if program != nil {
		if p.program, err = pinset.ReadProgram(program); err != nil {
			return err
		}
	}
	material, err := source.Read(ctx, p.spec.Sources, sourceOptions(o))
	if err != nil {
		return err
	}
	p.material = material
	if p.spec.ISO.Base != "" {
		if p.base, err = iso.OpenBase(p.spec.ISO.Base); err != nil {
			return err
		}
	}
	if p.spec.OpenShift != nil {
		p.material.ForCluster(p.spec.OpenShift.PoolNames())
	}
	registries, mirrorWarnings, err := readMirrors(ctx, p.spec.Mirrors)
	if err != nil {
		return err
	}
	if bytes.Contains(registries, []byte(mirror.Digest)) && p.material.Unpinned() {
		p.material.RegistryReasons = append(p.material.RegistryReasons, fmt.Sprintf("mirrors of ImageDigestMirrorSets, and "+
			"imageDigestSources in %s, are asked for digests only: for tags, an ImageTagMirrorSet is needed",
			strings.Join(p.spec.Mirrors, ", ")))
	}
	p.config, err = firstboot.Configure(o.Appliance, p.base, p.material, registries, p.program)
	if err != nil {
		return err
	}
	access := o.Access
	access.Registries = registries
	access.Retrying = o.Hooks.Retrying
	access.Documents = storage.Documents{None: tmp == "", Tmp: tmp}
	access.Insecure = insecure(o)
	if p.client, err = storage.NewClient(access, p.spec.Platform); err != nil {
		return err
	}
	p.warnings = slices.Concat(weakened(o), p.material.Warnings, mirrorWarnings, p.client.Warnings())
	if o.Appliance.Metadata.Release == 0 && (!o.Signer.IsZero() || p.config.HasKeys()) {
		p.warnings = append(p.warnings, "a signature does not tell an old store from a new one, and the release has no "+
			"number: nodes attach any signed store of the appliance; metadata.release or --release-number sets it")
	}
	return nil
}

// resolve asks the registries for what the sources name, and makes the lock.
func (p *plan) resolve(ctx context.Context, o Options) error {
	resolved, err := resolve.Resolve(ctx, p.client, p.material, o.Lock, o.Hooks)
	if err != nil {
		return p.explain(err)
	}
	p.sets, p.images, p.artifacts = resolved.Sets, resolved.Images, resolved.Artifacts
	p.releases = resolved.Releases
	if p.spec.OpenShift != nil {
		for i := range p.sets {
			p.sets[i].Version = p.spec.OpenShift.SetVersion()
		}
	}
	if p.material.Unpinned() { // there are more sets now
		if p.config, err = p.config.WithSets(p.sets); err != nil {
			return err
		}
	}
	p.lock = pinset.Lock{
		Version: pinset.LockVersion, ReleaseID: o.Appliance.Metadata.ID(), Platform: p.spec.Platform,
		Artifacts: locked(p.artifacts),
	}
	for _, s := range p.sets {
		p.lock.Sets = append(p.lock.Sets, s.Lock())
	}
	var documents int64 // bytes
	for _, img := range p.images {
		p.lock.Images = append(p.lock.Images, img.LockedImage)
		documents += img.DocumentBytes
	}
	if p.program.Digest != "" {
		p.lock.Program = &p.program
	}
	p.warnings = slices.Concat(p.warnings, resolved.Warnings, p.config.Warnings(), p.volumeWarnings(),
		p.artifactWarnings())
	if err := layout.CheckLimits(p.lock, p.sets, documents); err != nil || !o.Locked {
		return err
	}
	if drift := pinset.DescribeDifference(o.Lock, p.lock); drift != "" {
		return fmt.Errorf("%w:\n%s", ErrDrift, drift)
	}
	return nil
}

// sourceOptions returns the options for reading sources. Compressed archives are unpacked beside the
// output folder, where there must be enough space for the images anyway.
func sourceOptions(o Options) source.Options {
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

// artifactWarnings say which CRI-O reads OCI artifacts of a store; it is not known which one the nodes have.
func (p *plan) artifactWarnings() []string {
	if len(p.artifacts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("nodes find the %d OCI artifacts, such as %s, with CRI-O 1.36 or newer: "+
		"an older one reads none of a store, and pulls them", len(p.artifacts), p.artifacts[0].Image)}
}

// volumeWarnings name the images that pods cannot mount as image volumes.
func (p *plan) volumeWarnings() []string {
	var names []string
	for _, img := range p.images {
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

// Plan returns the lock of the appliance that Build would make, and warnings. It writes nothing.
func Plan(ctx context.Context, o Options) (pinset.Lock, []string, error) {
	ignored, err := o.validate()
	if err != nil {
		return pinset.Lock{}, nil, err
	}
	if o.Appliance.Spec.Node.Binary != "" { // Build would fail if it cannot be used
		binary, err := openNodeBinary(o)
		if err != nil {
			return pinset.Lock{}, nil, err
		}
		if err := binary.Close(); err != nil {
			return pinset.Lock{}, nil, err
		}
	}
	p, err := makePlan(ctx, o, nil, storage.PackOptions{})
	if err != nil {
		return pinset.Lock{}, nil, err
	}
	defer p.Close()
	return p.lock, slices.Concat(ignored, p.warnings), nil
}

// ErrNodeBinary says that the pinbox-node for the store is missing or does not run on the nodes.
var ErrNodeBinary = fault.New(fault.Input, "pinbox-node cannot be used",
	"install the package pinbox-nodes, which has one for each architecture, or name one with spec.node.binary or "+
		"--node-binary")

// elfMachines has the architectures of nodes, by their names in Go.
var elfMachines = map[elf.Machine]string{
	elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x",
	elf.EM_RISCV: "riscv64",
}

// openNodeBinary opens the pinbox-node for the store, and checks its architecture.
func openNodeBinary(o Options) (*os.File, error) {
	name := o.Appliance.Spec.Node.Binary
	if name == "" {
		name = o.NodeBinary
	}
	f, err := input.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNodeBinary, err)
	}
	_, arch, _ := o.Appliance.Spec.Platform.Split()
	head, err := elf.NewFile(f)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %s is not a Linux program: %w", ErrNodeBinary, name, err)
	case elfMachines[head.Machine] != arch:
		err = fmt.Errorf("%w: %s is for %s, the appliance for %s", ErrNodeBinary, name, elfMachines[head.Machine], arch)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// openProgram opens the pinbox-node of the release. A delta needs none, which a warning says: nodes keep theirs.
func openProgram(o Options) (program *os.File, warnings []string, err error) {
	program, err = openNodeBinary(o)
	if o.makesDelta() && o.Appliance.Spec.Node.Binary == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, []string{"nodes keep their pinbox-node: there is none at " + o.NodeBinary +
			", and neither --node-binary nor spec.node.binary names one"}, nil
	}
	return program, nil, err
}
