package ignition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	butane "github.com/coreos/butane/config"
	butanecommon "github.com/coreos/butane/config/common"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/runtime/crio"
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

// extraManifests is the folder of an agent's ISO with the user's objects of the cluster: extraManifestPath in
// pkg/asset/agent/image/ignition.go of github.com/openshift/installer.
const extraManifests = "/etc/assisted/extra-manifests/"

// ExtraManifests returns the user's objects in the config of an agent's ISO by the names of their files.
func ExtraManifests(config []byte) (map[string][]byte, error) {
	t, err := readTree(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMerge, err)
	}
	objects := map[string][]byte{}
	for name, content := range t.files {
		if below, found := strings.CutPrefix(name, extraManifests); found {
			objects[below] = content
		}
	}
	return objects, nil
}

// machineConfig is an object with the configuration of the nodes of a pool. in is the file that has it.
type machineConfig struct {
	in, name, pool string
	config         []byte
}

// ReviewCluster compares the user's MachineConfigs with a system of the cluster, and with ours; both are contents of
// files by their names. The operator merges all of a pool, and of two that say different things the last name wins.
// Names that nobody else may have are reserved, if there are ours; without any, an earlier release of ours may have
// them.
func ReviewCluster(theirs, ours map[string][]byte, reserved []string, s System) (notes []string, err error) {
	own, err := machineConfigs(ours)
	if err != nil {
		return nil, err
	}
	if len(own) == 0 {
		reserved = []string{crio.PinnedImagesPath} // the operator's
	}
	all, err := machineConfigs(theirs)
	if err != nil {
		notes = append(notes, fmt.Sprintf("%v: what is in it is not compared", err))
	}
	for _, m := range all {
		if slices.ContainsFunc(own, func(o machineConfig) bool { return o.name == m.name }) {
			continue // an earlier one of ours, which ours replaces
		}
		found, err := m.review(own, reserved, s)
		if err != nil {
			return nil, fmt.Errorf("%s: MachineConfig %s: %w", m.in, m.name, err)
		}
		for _, note := range found {
			notes = append(notes, fmt.Sprintf("%s: MachineConfig %s: %s", m.in, m.name, note))
		}
	}
	return notes, nil
}

// review compares an object of the user with ours of the same nodes.
func (m machineConfig) review(ours []machineConfig, reserved []string, s System) (notes []string, err error) {
	there, err := readTree(m.config)
	if err != nil { // the operator also takes Ignition 2
		return []string{fmt.Sprintf("%v: what is in it is not compared", err)}, nil
	}
	own := newTree()
	for _, o := range ours {
		if !o.shares(m.pool) {
			continue
		}
		if err := own.read(o.config, maxMerges); err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	var conflicts []string
	for _, c := range own.conflicts(there, reserved) {
		conflicts = append(conflicts, fmt.Sprintf("%s: it has %s, pinbox %s", c.what, c.theirs, c.ours))
	}
	if len(conflicts) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrConflict, strings.Join(conflicts, "; "))
	}
	there.files[crio.PinnedImagesPath] = crio.RenderPinned(s.Images)
	return there.review(s)
}

// shares reports whether nodes of the object's pool can also be in the other one, or get its objects: a pool of a
// user's own has those of the workers.
func (m machineConfig) shares(pool string) bool {
	const worker = "worker"
	inherits := func(pool string) bool { return pool != "master" && pool != "arbiter" }
	return m.pool == pool || (m.pool == worker && inherits(pool)) || (pool == worker && inherits(m.pool))
}

// generated is the annotation of objects that the operator makes of others, and makes again:
// GeneratedByControllerVersionAnnotationKey in pkg/controller/common of the Machine Config Operator.
const generated = "machineconfiguration.openshift.io/generated-by-controller-version"

// machineConfigs returns the MachineConfigs that are in files and have an Ignition config, in the order of the files,
// without those that the operator makes. Those before an error are returned with it.
func machineConfigs(files map[string][]byte) (all []machineConfig, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		dec := yaml.NewDecoder(bytes.NewReader(files[name]))
		for {
			var object struct {
				Kind     string
				Metadata struct {
					metadata    `yaml:",inline"`
					Annotations map[string]any
				}
				Spec struct{ Config map[string]any }
			}
			err := dec.Decode(&object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				break
			}
			meta := object.Metadata
			if object.Kind != "MachineConfig" || len(object.Spec.Config) == 0 || meta.Annotations[generated] != nil {
				continue
			}
			config, err := json.Marshal(object.Spec.Config)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				continue
			}
			all = append(all, machineConfig{name, meta.Name, meta.Labels[pinset.RoleLabel], config})
		}
	}
	return all, errors.Join(errs...)
}
