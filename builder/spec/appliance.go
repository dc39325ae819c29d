package spec

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Version and kind of the appliance file.
const (
	apiVersion = "pinbox/v1alpha1"
	kind       = "Appliance"
)

// DefaultPlatform of the nodes.
const DefaultPlatform pinset.Platform = "linux/amd64"

// ErrAppliance says that an appliance file is not valid.
var ErrAppliance = fault.New(fault.Input, "not a valid appliance file",
	"docs/appliance.md describes all fields")

// Appliance describes what to build. Relative paths are resolved against the folder of the appliance file.
type Appliance struct {
	// APIVersion is pinbox/v1alpha1.
	APIVersion string `yaml:"apiVersion" jsonschema:"enum=pinbox/v1alpha1"`
	// Kind is Appliance.
	Kind string `yaml:"kind" jsonschema:"enum=Appliance"`
	// Metadata is what nodes know the appliance by.
	Metadata Metadata `yaml:"metadata"`
	// Spec is what to build.
	Spec Spec `yaml:"spec"`
	// Digest of the appliance file; "" if there is none.
	Digest digest.Digest `yaml:"-"`
}

// Metadata of an appliance.
type Metadata struct {
	// Name of the appliance. A node attaches stores of another appliance only with --force.
	Name string `yaml:"name" jsonschema:"minLength=1,maxLength=253,example=factory-12"`
	// Release is the number of this release of the appliance. A node that has a release with a number takes one that is
	// not greater only with --force. 0, the default, is no number: nodes do not attach the release by themselves.
	Release int64 `yaml:"release,omitempty" jsonschema:"minimum=0,example=7"`
}

// CheckName returns an error if an appliance cannot have the name.
func CheckName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	return pinset.ReleaseID{Name: name}.Check()
}

// ID returns the name and the number as a lock has them.
func (m Metadata) ID() pinset.ReleaseID { return pinset.ReleaseID{Name: m.Name, Number: m.Release} }

// Spec of an appliance.
type Spec struct {
	// Platform of the nodes. The default is linux/amd64.
	Platform pinset.Platform `yaml:"platform,omitempty" jsonschema:"example=linux/arm64"`
	// Sources of images.
	Sources []source.Entry `yaml:"sources" jsonschema:"minItems=1"`
	// Mirrors are files or folders with ImageDigestMirrorSet, ImageTagMirrorSet and ImageContentSourcePolicy objects, for
	// the build and the nodes.
	Mirrors []string `yaml:"mirrors,omitempty" jsonschema:"example=cluster-resources/"`
	// InsecureRegistries are registries and mirrors, as HOST:PORT, or as HOST for all its ports, that the build may use
	// by plain HTTP or with an untrusted certificate.
	InsecureRegistries []string `yaml:"insecureRegistries,omitempty" jsonschema:"example=mirror.example.com:5000"`
	// DefaultRegistry completes names without a registry in lists of images, as nginx:1.27. If left out, an alias or the
	// only one of unqualified-search-registries in registries.conf does.
	DefaultRegistry string `yaml:"defaultRegistry,omitempty" jsonschema:"example=docker.io"`
	// AnyArchitecture are images that may be for another architecture. A name without a tag and a digest is each image of
	// the repository.
	AnyArchitecture []string `yaml:"anyArchitecture,omitempty" jsonschema:"example=quay.io/site/firmware"`
	// Store describes how the image store is written.
	Store Store `yaml:"store,omitempty"`
	// Ignition describes what is merged into the first-boot configuration.
	Ignition Ignition `yaml:"ignition,omitempty"`
	// ISO describes the live ISO with the store and the configuration.
	ISO ISO `yaml:"iso,omitempty"`
	// Node describes how the nodes use the appliance.
	Node Node `yaml:"node,omitempty"`
	// OpenShift describes the cluster, if its Machine Config Operator manages the nodes.
	OpenShift *OpenShift `yaml:"openshift,omitempty"`
}

// Store describes how the image store is written.
type Store struct {
	// Format is squashfs (the default), which the node mounts, or dir, a folder, which requires root.
	Format format.Name `yaml:"format,omitempty"`
	// Compression of the squashfs: zstd (the default), gzip or none.
	Compression squashfs.Compression `yaml:"compression,omitempty" jsonschema:"enum=zstd,enum=gzip,enum=none"`
	// CompressionLevel is fast, default or best: a smaller store takes more CPU time to build, and
	// about as much to read.
	CompressionLevel squashfs.Level `yaml:"compressionLevel,omitempty" jsonschema:"enum=fast,enum=default,enum=best"`
	// BlockSize of the squashfs in bytes: a power of two from 4096 to 1048576. The default is
	// 131072.
	BlockSize int `yaml:"blockSize,omitempty" jsonschema:"example=131072"`
}

// Ignition describes what is merged into the first-boot configuration.
type Ignition struct {
	// Butane files to merge. Later files override earlier ones.
	Butane []string `yaml:"butane,omitempty" jsonschema:"example=network.bu"`
	// SSHAuthorizedKeys of the user core.
	SSHAuthorizedKeys []string `yaml:"sshAuthorizedKeys,omitempty" jsonschema:"example=ssh-ed25519 AAAA me@site"`
}

// IsZero reports whether there is nothing to merge.
func (i Ignition) IsZero() bool { return len(i.Butane)+len(i.SSHAuthorizedKeys) == 0 }

// ISO describes the live ISO with the store and the configuration.
type ISO struct {
	// Base is the CoreOS live ISO that the appliance's ISO is made from. Without a base, no ISO
	// is made.
	Base string `yaml:"base,omitempty" jsonschema:"example=rhcos-live.x86_64.iso"`
	// Mode is live (the default): the node runs from the medium; install: the live system installs CoreOS and the store
	// to a disk; or agent: it puts the store on a disk that the installer in the base, such as OpenShift's agent,
	// installs to.
	Mode string `yaml:"mode,omitempty" jsonschema:"enum=live,enum=install,enum=agent"`
	// InstallDevice is the disk that modes install and agent overwrite.
	InstallDevice string `yaml:"installDevice,omitempty" jsonschema:"pattern=^/dev/[A-Za-z0-9][A-Za-z0-9/._:+-]*$"`
	// KernelArguments of the live system.
	KernelArguments KernelArguments `yaml:"kernelArguments,omitempty"`
	// InstalledKernelArguments of the system that mode install installs.
	InstalledKernelArguments InstalledKernelArguments `yaml:"installedKernelArguments,omitempty"`
	// Existing is what happens to an Ignition config that the base has: merge adds that of the appliance, replace
	// replaces it. If left out, such a base is an error.
	Existing string `yaml:"existing,omitempty" jsonschema:"enum=merge,enum=replace"`
}

// KernelArguments are deleted, replaced and appended, in this order.
type KernelArguments struct {
	// Delete are arguments to delete, in full.
	Delete []string `yaml:"delete,omitempty" jsonschema:"example=quiet"`
	// Replace has the form key=old=new.
	Replace []string `yaml:"replace,omitempty"`
	// Append are arguments to append.
	Append []string `yaml:"append,omitempty"`
}

// InstalledKernelArguments are changes to the kernel arguments of the installed system.
type InstalledKernelArguments struct {
	// Delete are arguments to delete, in full.
	Delete []string `yaml:"delete,omitempty" jsonschema:"example=quiet"`
	// Append are arguments to append.
	Append []string `yaml:"append,omitempty"`
}

// Node describes how the nodes use the appliance.
type Node struct {
	// Store describes where the node finds its store. The default is the file in the live ISO
	// or, in mode install, the partition that the installation makes.
	Store NodeStore `yaml:"store,omitempty"`
	// InternalRepair enables CRI-O's own repair after an unclean stop, which up to at least 1.34 wipes the main store of
	// a node with a read-only store.
	InternalRepair bool `yaml:"internalRepair,omitempty"`
	// SELinuxContext of all mounted stores. The default is system_u:object_r:container_ro_file_t:s0; "" means none.
	SELinuxContext *string `yaml:"selinuxContext,omitempty" jsonschema:"example=system_u:object_r:container_ro_file_t:s0"`
	// KeepPrevious is how many previous releases stay on the node for a rollback. The default is 1.
	KeepPrevious *int `yaml:"keepPrevious,omitempty" jsonschema:"minimum=0,example=1"`
	// AutoAttach attaches a medium with the volume label PINBOX that is plugged in. The appliance needs a release number.
	AutoAttach bool `yaml:"autoAttach,omitempty"`
	// ImageVolumes is what the node does about images that pods of a source `manifests` use as image volumes: report, if
	// left out, warns of them; copy writes them into CRI-O's own store.
	ImageVolumes layout.ImageVolumes `yaml:"imageVolumes,omitempty" jsonschema:"enum=report,enum=copy"`
	// Service are the settings of pinbox-node.
	layout.Service `yaml:",inline"`
	// PullSecret is a file with registry credentials for the nodes. The Ignition configs and the ISO contain it.
	PullSecret string `yaml:"pullSecret,omitempty" jsonschema:"example=pull-secret.json"`
	// Binary is the pinbox-node to put into the store. The default is the one beside pinbox.
	Binary string `yaml:"binary,omitempty" jsonschema:"example=pinbox-node-arm64"`
}

// NodeStore describes where a node finds its store: at most one of path, partitionLabel, volumeLabel and url is set.
type NodeStore struct {
	// Path of the store's file on the node, without an ISO by default /var/lib/pinbox/store.squashfs, but for
	// spec.openshift; or of its folder, by default /var/lib/pinbox/store.
	Path string `yaml:"path,omitempty" jsonschema:"pattern=^/[A-Za-z0-9/._-]+$,example=/srv/pinbox/store.squashfs"`
	// PartitionLabel of the GPT partition that contains the store.
	PartitionLabel string `yaml:"partitionLabel,omitempty" jsonschema:"pattern=^[A-Za-z0-9._-]+$,maxLength=36"`
	// VolumeLabel of a separate medium with the store, which `pinbox medium` writes. The ISO then has none.
	VolumeLabel string `yaml:"volumeLabel,omitempty" jsonschema:"pattern=^[A-Z0-9_]+$,maxLength=16,example=PINBOX"`
	// URL of the store's file on an HTTP server, with pinbox-node in the same folder. The node fetches both, to
	// /var/lib/pinbox and /usr/local/bin, and compares their SHA-256. The ISO then has no store.
	URL string `yaml:"url,omitempty" jsonschema:"pattern=^https?://.+/.+$,example=http://boot.lab/store.squashfs"`
	// Verity is when the node mounts stores by dm-verity, which verifies each block that is read: auto, if left out:
	// where dmsetup and the kernel's module are; require: it mounts none without; off.
	Verity layout.Verity `yaml:"verity,omitempty" jsonschema:"enum=auto,enum=require,enum=off"`
}

// New returns an appliance with these sources, for a build without an appliance file.
func New(sources ...source.Entry) Appliance {
	return Appliance{
		APIVersion: apiVersion, Kind: kind, Metadata: Metadata{Name: "appliance"}, Spec: Spec{Sources: sources},
	}
}

// Read reads and validates an appliance file. Unknown fields are errors. Relative paths are joined with the
// file's folder.
func Read(path string) (Appliance, error) {
	f, err := Open(path)
	if err != nil {
		return Appliance{}, err
	}
	if wrong := f.Problems(f.Appliance.Validate()); len(wrong) > 0 {
		return Appliance{}, fmt.Errorf("%w: %w", ErrAppliance, wrong)
	}
	return f.Appliance, nil
}

// Validate checks the appliance, and sets the default platform. It reports all errors at once.
func (a *Appliance) Validate() error {
	spec := &a.Spec
	if spec.Platform == "" {
		spec.Platform = DefaultPlatform
	}
	var errs []error
	add := func(field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%w", field, err))
		}
	}
	if a.APIVersion != apiVersion {
		errs = append(errs, fmt.Errorf("apiVersion is %q; this pinbox reads %s", a.APIVersion, apiVersion))
	}
	if a.Kind != kind {
		errs = append(errs, fmt.Errorf("kind is %q; it must be %s", a.Kind, kind))
	}
	if a.Metadata.Name == "" {
		errs = append(errs, errors.New("metadata.name is missing"))
	}
	add("metadata.", pinset.ReleaseID{Name: a.Metadata.Name}.Check())
	add("metadata.", pinset.ReleaseID{Number: a.Metadata.Release}.Check())
	if len(spec.Sources) == 0 {
		errs = append(errs, errors.New("spec.sources is empty"))
	}
	for i, s := range spec.Sources {
		for _, err := range parts(s.Validate(cmp.Or(a.Metadata.Name, "a"))) {
			add(fmt.Sprintf("spec.sources[%d] ", i), err)
		}
	}
	for _, host := range spec.InsecureRegistries {
		add("spec.insecureRegistries: ", storage.CheckHost(host))
	}
	add("spec.defaultRegistry: ", storage.CheckDefaultRegistry(spec.DefaultRegistry))
	add("spec.", spec.Platform.Validate())
	errs = append(errs, spec.validateStore(), spec.validateISO(), spec.OpenShift.validate())
	add("spec.ignition.sshAuthorizedKeys: ", ignition.CheckSSHKeys(spec.Ignition.SSHAuthorizedKeys))
	known := *spec
	if format.Of(known.Store.Format) == nil {
		known.Store.Format = ""
	}
	for _, err := range parts(known.Config(nil, nil).Node.Validate()) {
		add("spec.node: ", err)
	}
	return errors.Join(errs...)
}

// resolvePaths joins all relative paths with dir.
func (a *Appliance) resolvePaths(dir string) {
	paths := []*string{&a.Spec.Node.Binary, &a.Spec.Node.PullSecret, &a.Spec.ISO.Base}
	paths = append(append(paths, each(a.Spec.Ignition.Butane)...), each(a.Spec.Mirrors)...)
	for _, s := range a.Spec.Sources {
		if s.Source != nil { // Validate says so
			paths = append(paths, s.Source.PathFields()...)
		}
	}
	for _, path := range paths {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
}

// Platforms returns the platforms that nodes can have.
func Platforms() (all []string) {
	for _, arch := range pinset.Architectures() {
		all = append(all, "linux/"+arch)
	}
	return all
}

// parts returns the errors that errors.Join has joined.
func parts(err error) (all []error) {
	list, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // a wrapped one has a text of its own
	if !ok || !isJoin(err, list.Unwrap()) {
		return []error{err}
	}
	for _, err := range list.Unwrap() {
		all = append(all, parts(err)...)
	}
	return all
}

// ParsePlatform parses a platform such as linux/amd64.
func ParsePlatform(s string) (pinset.Platform, error) {
	p := pinset.Platform(s)
	return p, p.Validate()
}

func each[T any](list []T) (pointers []*T) {
	for i := range list {
		pointers = append(pointers, &list[i])
	}
	return pointers
}
