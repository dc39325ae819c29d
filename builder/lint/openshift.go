package lint

import (
	"slices"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Request is what asks a registry in a cluster, although the nodes have the images in their stores.
type Request struct {
	// Name of the row in docs/openshift.md.
	Name string `json:"name"`
	// During is when it asks: install, update or run.
	During string `json:"during"`
	// What asks, and for what.
	What string `json:"what"`
	// Cure is what makes it ask no more, or where a registry may be.
	Cure string `json:"cure"`
	// Source is where this was read.
	Source string `json:"source"`

	// from and until are the versions of OpenShift that have it, until included; the zero value is no limit.
	from, until spec.Minor
}

// requests is the table of docs/openshift.md. Files are in github.com/openshift/machine-config-operator, as of August
// 2026, unless another repository is named.
var requests = []Request{
	{
		Name: "first-boot", During: "install",
		What: "each node pulls the operator's own image with `podman pull`, which always asks, until it succeeds",
		Cure: "let a registry be reached until a node has booted once: a mirror, or from 4.22 on the one of " +
			"InternalReleaseImage",
		Source: "templates/common/_base/units/machine-config-daemon-pull.service.yaml",
	},
	{
		Name: "first-boot-os", During: "install", until: spec.Minor{Major: 4, Minor: 22},
		What: "each node fetches the operating system of the release, since it does not know yet of PinnedImageSets",
		Cure: "as for first-boot", Source: "pkg/daemon/update.go, isPinnedImageSetConfigured",
	},
	{
		Name: "bootstrap", During: "install",
		What:   "the bootstrap host's pod of the cluster version operator has the pull policy Always",
		Cure:   "let the bootstrap host reach a registry: a mirror, or that of github.com/openshift/appliance",
		Source: "github.com/openshift/cluster-version-operator, bootstrap/bootstrap-pod.yaml",
	},
	{
		Name: "os-image", During: "update", until: spec.Minor{Major: 4, Minor: 15},
		What: "each node fetches the operating system from the registry", Cure: "let the nodes reach a registry",
		Source: "pkg/daemon/update.go",
	},
	{
		Name: "os-image", During: "update", from: spec.Minor{Major: 4, Minor: 16}, until: spec.Minor{Major: 4, Minor: 18},
		What: "each node fetches the operating system from the registry, unless podman has it and the feature " +
			"PinnedImages is on",
		Cure: "let the nodes reach a registry: TechPreviewNoUpgrade, which turns it on, prevents updates to the next " +
			"minor version",
		Source: "pkg/daemon/update.go, isImagePresent",
	},
	{
		Name: "os-image", During: "update", from: spec.Minor{Major: 4, Minor: 19}, until: spec.Minor{Major: 4, Minor: 22},
		What: "each node fetches the operating system from the registry, unless podman has it and the pool has a " +
			"PinnedImageSet",
		Cure:   "machineOS and spec.openshift.podman, and apply the PinnedImageSets",
		Source: "pkg/daemon/update.go, isPinnedImageSetConfigured",
	},
	{
		Name: "os-image", During: "update", from: spec.Minor{Major: 4, Minor: 23},
		What:   "each node fetches the operating system from the registry, unless podman has it",
		Cure:   "machineOS and spec.openshift.podman",
		Source: "pkg/daemon/update.go, GetPodmanImageInfoByReference",
	},
	{
		Name: "os-streams", During: "update", from: spec.Minor{Major: 4, Minor: 23},
		What:   "machine-config-controller inspects the operating systems of the release before it does anything else",
		Cure:   "let the control plane reach a registry: a mirror, or that of InternalReleaseImage; no store can serve it",
		Source: "cmd/machine-config-controller/start.go, EnsureOSImageStream",
	},
	{
		Name: "extensions", During: "update",
		What: "a node with extensions or another kernel pulls the image of the extensions, from 4.16 on unless podman has it",
		Cure: "machineOS and spec.openshift.podman, or no extensions", Source: "pkg/daemon/update.go, podmanCopy",
	},
	{
		Name: "node-ip", During: "update",
		What: "on premises, as on bare metal, a node pulls baremetal-runtimecfg when it boots, unless podman has it",
		Cure: "spec.openshift.podman", Source: "templates/common/on-prem/files/resolv-prepender.yaml",
	},
	{
		Name: "imagestreams", During: "run",
		What: "imports of image streams, as those of the samples operator, read the registry's manifests (not tried)",
		Cure: "set the samples operator to Removed, and name images by digest",
		Source: "github.com/openshift/enhancements, enhancements/update/" +
			"dont-require-registry-during-reboot-and-upgrade.md",
	},
	{
		Name: "catalogs", During: "run",
		What: "the pod of a CatalogSource by tag is pulled at each start, and updateStrategy asks for newer ones " +
			"(not tried)",
		Cure:   "disableAllDefaultSources, and a CatalogSource by digest without updateStrategy",
		Source: "github.com/operator-framework/operator-lifecycle-manager, pkg/controller/registry/reconciler",
	},
}

// Pools returns the sets that belong to no pool of OpenShift, whose nodes then do not pin their images.
func Pools(objects source.Objects) []Finding {
	var l linter
	for _, set := range objects.Sets {
		if set.Role.Text == "" {
			l.add(set.Name, "set-pool", "add the label, in a copy for each pool; build does so with spec.openshift",
				"set %q has no label %s, and belongs to no pool of OpenShift", set.Name.Text, pinset.RoleLabel)
		}
	}
	return l.findings
}

// Requests returns what asks a registry in a version of OpenShift.
func Requests(v spec.Minor) []Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r Request) bool {
		return v.Before(r.from) || r.until != (spec.Minor{}) && r.until.Before(v)
	})
}
