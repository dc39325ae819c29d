package ignition

import (
	"fmt"

	butane "github.com/coreos/butane/config"
	butanecommon "github.com/coreos/butane/config/common"

	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// The version of Butane's OpenShift flavour that gives Ignition 3.4, which is what OpenShift 4.14 to 4.18 read; later
// ones read 3.5, too.
const (
	openshiftVariant = "openshift"
	openshiftVersion = "4.14.0"
)

// ErrTooLarge says that an object exceeds what the cluster takes.
var ErrTooLarge = fault.New(fault.Input, "too large for a cluster",
	"shorten the texts of spec.node: it holds nothing else of yours")

// maxMachineConfig is the most that the rendered MachineConfig of a pool may have, in bytes: MaxMachineConfigSize in
// pkg/controller/common of the Machine Config Operator, from the limit of etcd.
const maxMachineConfig = 3 << 19

// metadata is that of the object.
type metadata struct {
	Name   string            `yaml:"name"`
	Labels map[string]string `yaml:"labels"`
}

// MachineConfig renders the parts as an object for the nodes of a pool. Parts that the operator cannot handle are
// errors: see provision.Parts.Managed.
func MachineConfig(name, pool string, parts provision.Parts) ([]byte, error) {
	doc := document{
		Variant: openshiftVariant, Version: openshiftVersion,
		Metadata: &metadata{name, map[string]string{pinset.RoleLabel: pool}},
	}
	doc.add(parts)
	bu, err := doc.encode("MachineConfig of a pinbox appliance", name)
	if err != nil {
		return nil, err
	}
	// A file that is compressed here, and replaced by one that is not, would be taken for compressed: butane issue 332.
	object, findings, err := butane.TranslateBytes(bu, butanecommon.TranslateBytesOptions{
		TranslateOptions: butanecommon.TranslateOptions{NoResourceAutoCompression: true},
	})
	if err == nil && len(findings.Entries) > 0 {
		err = fmt.Errorf("%s", oneLine(findings.String()))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrButane, err)
	}
	if len(object) > maxMachineConfig {
		return nil, fmt.Errorf("%s: %w: it has %d bytes, and a MachineConfig at most %d", name, ErrTooLarge, len(object),
			maxMachineConfig)
	}
	return object, nil
}
