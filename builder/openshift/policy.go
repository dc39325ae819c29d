package openshift

import (
	"slices"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
)

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
