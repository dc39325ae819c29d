package openshift

import (
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
)

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
