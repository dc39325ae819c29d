package spec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// OpenShift describes the cluster of the nodes, whose Machine Config Operator manages them.
type OpenShift struct {
	// Version of the cluster, as 4.20, from 4.14 on.
	Version string `yaml:"version" jsonschema:"pattern=^[45]\\.[0-9]{1\\,2}$,example=4.20"`
	// Pools are the MachineConfigPools of the nodes. The default is worker and master.
	Pools []string `yaml:"pools,omitempty" jsonschema:"example=worker"`
	// API of the PinnedImageSets is v1, from 4.19 on. In 4.16 to 4.18 it is v1alpha1, and only there if
	// the cluster has TechPreviewNoUpgrade; without it, the nodes pin the images by themselves.
	API string `yaml:"api,omitempty" jsonschema:"enum=v1,enum=v1alpha1"`
	// Podman makes podman and rpm-ostree on the nodes see the stores, too, so that the operator updates the
	// operating system from them.
	Podman bool `yaml:"podman,omitempty"`
}

// Minor is a version of OpenShift without its patch: 4.20 is {4, 20}.
type Minor struct{ Major, Minor int }

// Versions from which on a cluster differs.
var (
	// The oldest that pinbox writes for: its CRI-O takes Ignition 3.4.
	oldest = Minor{4, 14}
	// The last of OpenShift 4.
	last4 = Minor{4, 23}
	// PinnedImageSets are served as v1alpha1, in preview.
	previewed = Minor{4, 16}
	// A NodeDisruptionPolicy says what a change restarts, without a feature in preview.
	policies = Minor{4, 17}
	// The operator pins images without a feature in preview: github.com/openshift/api, features.go.
	pinning = Minor{4, 19}
	// A ContainerRuntimeConfig has additional image stores, likewise.
	storing = Minor{4, 23}
)

var minorVersion = regexp.MustCompile(`^([45])\.([0-9]{1,2})$`)

// ParseMinor parses a version such as 4.20.
func ParseMinor(s string) (Minor, error) {
	m := minorVersion.FindStringSubmatch(s)
	if m == nil {
		return Minor{}, fmt.Errorf("OpenShift %q is not a version such as 4.20, without the patch", s)
	}
	major, _ := strconv.Atoi(m[1]) // they are digits
	minor, _ := strconv.Atoi(m[2])
	v := Minor{major, minor}
	if v.Before(oldest) {
		return Minor{}, fmt.Errorf("OpenShift %s is older than %s, the oldest that pinbox knows", s, oldest)
	}
	if v.Major == last4.Major && last4.Before(v) {
		return Minor{}, fmt.Errorf("OpenShift %s does not exist: %s is the last before 5.0", s, last4)
	}
	return v, nil
}

// String is 4.20.
func (v Minor) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Before reports whether v is older than w.
func (v Minor) Before(w Minor) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// minor is the version. The spec must be valid.
func (o OpenShift) minor() Minor {
	v, _ := ParseMinor(o.Version)
	return v
}

// PoolNames are the pools, or those that every cluster has.
func (o OpenShift) PoolNames() []string {
	if len(o.Pools) == 0 {
		return []string{"worker", "master"}
	}
	return o.Pools
}

// Pins is who pins the images: the operator, or the nodes where no operator does.
func (o OpenShift) Pins() layout.Pins {
	if o.API == "" && o.minor().Before(pinning) {
		return layout.PinsNode
	}
	return layout.PinsOperator
}

// SetVersion is the version of the API of PinnedImageSets.
func (o OpenShift) SetVersion() string {
	if o.minor().Before(pinning) {
		return "v1alpha1"
	}
	return "v1"
}

// RuntimeConfig reports whether a ContainerRuntimeConfig names the stores.
func (o OpenShift) RuntimeConfig() bool { return o.Podman && !o.minor().Before(storing) }

// Policies reports whether the cluster has NodeDisruptionPolicies.
func (o OpenShift) Policies() bool { return !o.minor().Before(policies) }

// maxLabel is the most characters of the value of a label: Kubernetes, "Labels and Selectors".
const maxLabel = 63

// validate checks spec.openshift. It reports all errors at once.
func (o *OpenShift) validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, pool := range o.Pools {
		if !pinset.ValidName(pool) || slices.Contains(o.Pools[:i], pool) {
			refuse("spec.openshift.pools: %q is not the name of one more MachineConfigPool", pool)
		}
		if len(pool) > maxLabel {
			refuse("spec.openshift.pools: %q has %d characters, and as the label of a MachineConfig at most %d", pool, len(pool),
				maxLabel)
		}
	}
	knownAPI := o.API == "" || o.API == "v1" || o.API == "v1alpha1"
	if !knownAPI {
		refuse("spec.openshift.api is %q; it must be v1 or v1alpha1", o.API)
	}
	v, err := ParseMinor(o.Version)
	if err != nil {
		refuse("spec.openshift.version: %w", err)
		return errors.Join(errs...)
	}
	if o.Podman && v.Before(previewed) {
		refuse("spec.openshift.podman is for OpenShift %s and newer", previewed)
	}
	switch {
	case o.API == "v1" && v.Before(pinning):
		refuse("spec.openshift.api v1 is of OpenShift %s and newer", pinning)
	case o.API == "v1alpha1" && (v.Before(previewed) || !v.Before(pinning)):
		refuse("spec.openshift.api v1alpha1 is of OpenShift %s to 4.18", previewed)
	}
	return errors.Join(errs...)
}
