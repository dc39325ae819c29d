package openshift

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
)

// Names of files. Those in nodesDir, and the sets in setsDir, are applied in their order, with waits: not by
// `oc apply -f manifests/`, which reads no folder below. Those in podmanDir are for nodes that have the folders of the
// stores already: podman, skopeo and rpm-ostree fail while one of those that they are told of is missing.
const (
	nodesDir   = "nodes"
	setsDir    = "sets" // artifact.OpenShiftSetsDir
	policyFile = nodesDir + "/node-disruption-policy.yaml"
	podmanDir  = "podman"
)

// worker is the pool whose MachineConfigs all nodes have that are in a pool of a user's own.
const worker = "worker"

// standard are the pools that a cluster comes with, which inherit nothing.
var standard = []string{worker, "master", "arbiter"}

// Manifests returns the objects by their file names, other than the PinnedImageSets.
func Manifests(o spec.OpenShift, c ignition.Config) (map[string][]byte, error) {
	parts, err := managed(o, c)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	add := func(name string, content []byte, failed error) {
		files[name] = content
		if err == nil {
			err = failed
		}
	}
	if o.Policies() {
		content, failed := object(policy(parts, o.Podman))
		add(policyFile, content, failed)
	}
	for _, pool := range pools(o) {
		name := configName(pool)
		content, failed := ignition.MachineConfig(name, pool, parts)
		add(configFile(pool), content, failed)
		switch {
		case o.RuntimeConfig():
			content, failed = object(runtimeConfig(pool, slotsOf(c)))
		case o.Podman:
			content, failed = ignition.MachineConfig(name+"-podman", pool, storageConf(slotsOf(c)))
		default:
			continue
		}
		add(path.Join(podmanDir, name+"-podman.yaml"), content, failed)
	}
	return files, err
}

// configName is the name of the MachineConfig of a pool, and configFile its file.
func configName(pool string) string { return "99-" + pool + "-pinbox" }

func configFile(pool string) string { return path.Join(nodesDir, configName(pool)+".yaml") }

// pools are those that need a MachineConfig: one of a user's own has the MachineConfigs of the workers.
func pools(o spec.OpenShift) []string {
	names := slices.Clone(o.PoolNames())
	if !slices.Contains(names, worker) {
		return names
	}
	return slices.DeleteFunc(names, func(pool string) bool { return !slices.Contains(standard, pool) })
}

// managed is what the MachineConfigs hold. Credentials and mirrors are objects of the cluster's own.
func managed(o spec.OpenShift, c ignition.Config) (provision.Parts, error) {
	n := Installed(c)
	n.Sets, n.Registries, n.PullSecret, n.StoreFiles = nil, nil, nil, nil
	n.Pins, n.OthersList = o.Pins(), o.RuntimeConfig()
	parts, err := n.Parts()
	return parts.Managed(), err
}

// Installed is the node on its own disk: the store that the live system has in its ISO, is in a partition then.
func Installed(c ignition.Config) provision.Node {
	n := c.Node
	n.Keys = n.Keys || c.HasKeys()
	if s := n.Store; s.Path+s.PartitionLabel+s.VolumeLabel+s.Folder == "" {
		n.Store.PartitionLabel = layout.PartitionLabel
	}
	return n
}

// slotsOf are the paths of all stores.
func slotsOf(c ignition.Config) []string { return c.Store.Additional() }

// object renders an object of the cluster.
func object(value any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Written by pinbox.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(value)
	return b.Bytes(), err
}

// The part of a ContainerRuntimeConfig that pinbox writes: machineconfiguration/v1 of github.com/openshift/api.
type (
	containerRuntimeConfig struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   map[string]string `yaml:"metadata"`
		Spec       struct {
			Selector struct {
				Expressions []expression `yaml:"matchExpressions"`
			} `yaml:"machineConfigPoolSelector"`
			Config struct {
				Stores []store `yaml:"additionalImageStores"`
			} `yaml:"containerRuntimeConfig"`
		} `yaml:"spec"`
	}
	expression struct {
		Key      string `yaml:"key"`
		Operator string `yaml:"operator"`
	}
	store struct {
		Path string `yaml:"path"`
	}
)

// runtimeConfig makes the operator list the stores in storage.conf.
func runtimeConfig(pool string, stores []string) containerRuntimeConfig {
	c := containerRuntimeConfig{
		APIVersion: "machineconfiguration.openshift.io/v1", Kind: "ContainerRuntimeConfig",
		Metadata: map[string]string{"name": "pinbox-" + pool},
	}
	c.Spec.Selector.Expressions = []expression{{"pools.operator.machineconfiguration.openshift.io/" + pool, "Exists"}}
	for _, path := range stores {
		c.Spec.Config.Stores = append(c.Spec.Config.Stores, store{path})
	}
	return c
}

// storageConf is the operator's own storage.conf with the stores: templates/common/_base/files/container-storage.yaml
// of the Machine Config Operator, which is the same in OpenShift 4.16 to 4.23.
func storageConf(stores []string) provision.Parts {
	var b strings.Builder
	b.WriteString(`# Written by pinbox: the file of the Machine Config Operator, with read-only image stores.
[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"

[storage.options]
# Each directory must exist, mounted or empty.
additionalimagestores = [
`)
	for _, path := range stores {
		fmt.Fprintf(&b, "  %q,\n", path)
	}
	b.WriteString(`]

[storage.options.pull_options]
enable_partial_images = "false"
use_hard_links = "false"
ostree_repos = ""

[storage.options.overlay]
skip_mount_home = "true"
size = ""
`)
	return provision.Parts{Files: []provision.File{{
		Path: crio.StorageConf, Mode: 0o644, User: "root", Group: "root", Content: []byte(b.String()),
	}}}
}

// The part of a MachineConfiguration that pinbox writes: operator/v1 of github.com/openshift/api.
type (
	machineConfiguration struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   struct {
			Name string `yaml:"name"`
		} `yaml:"metadata"`
		Spec struct {
			ManagementState string `yaml:"managementState"`
			Policy          struct {
				Files []filePolicy `yaml:"files"`
				Units []unitPolicy `yaml:"units"`
			} `yaml:"nodeDisruptionPolicy"`
		} `yaml:"spec"`
	}
	filePolicy struct {
		Path    string   `yaml:"path"`
		Actions []action `yaml:"actions"`
	}
	unitPolicy struct {
		Name    string   `yaml:"name"`
		Actions []action `yaml:"actions"`
	}
	action struct {
		Type    string   `yaml:"type"`
		Restart *restart `yaml:"restart,omitempty"`
	}
	restart struct {
		Service string `yaml:"serviceName"`
	}
)

// What a node does about a change.
var (
	nothing = []action{{Type: "None"}}
	reload  = []action{{Type: "DaemonReload"}}
)

// restarts makes systemd read its units, and restarts a service.
func restarts(service string) []action {
	return append(slices.Clone(reload), action{Type: "Restart", Restart: &restart{service}})
}

// policy says what nodes do when the parts change, instead of the reboot that is the operator's own rule: CRI-O starts
// again where it has to see the change. The operator obeys each line by itself, and systemd refuses a service that
// starts more than five times in ten seconds, so few lines start one.
func policy(parts provision.Parts, podman bool) machineConfiguration {
	const crioService, nodeService = "crio.service", "pinbox-node.service"
	var m machineConfiguration
	m.APIVersion, m.Kind, m.Metadata.Name = "operator.openshift.io/v1", "MachineConfiguration", "cluster"
	m.Spec.ManagementState = "Managed"
	files := map[string][]action{
		crio.StoresPath:  restarts(crioService),
		crio.StorageConf: restarts(crioService),
		// It names the program, and has what the service reads when it starts.
		layout.NodeConfigPath: restarts(nodeService),
		provision.AttachPath:  reload,
	}
	add := func(path string) {
		actions := files[path]
		if actions == nil { // udevd, systemd-tmpfiles and pinbox-node read theirs when they need them
			actions = nothing
		}
		m.Spec.Policy.Files = append(m.Spec.Policy.Files, filePolicy{path, actions})
	}
	for _, f := range parts.Files {
		add(f.Path)
	}
	if podman {
		add(crio.StorageConf)
	}
	for _, u := range parts.Units {
		actions := reload
		switch u.Name {
		case nodeService:
			actions = restarts(nodeService)
		case crioService:
			actions = restarts(crioService)
		}
		m.Spec.Policy.Units = append(m.Spec.Policy.Units, unitPolicy{u.Name, actions})
	}
	return m
}
