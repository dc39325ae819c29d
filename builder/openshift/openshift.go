package openshift

import (
	"bytes"
	"fmt"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Names of files. Those in podmanDir are for nodes that have the folders of the stores already: podman, skopeo and
// rpm-ostree fail while one of those that they are told of is missing.
const (
	policyFile = "node-disruption-policy.yaml"
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
		name := "99-" + pool + "-pinbox"
		content, failed := ignition.MachineConfig(name, pool, parts)
		add(name+".yaml", content, failed)
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
	for _, set := range c.Sets {
		if name := pinset.FileName(set.Name); files[name] != nil {
			return nil, fmt.Errorf("%s: %w: set %q: %s is the file of another object", set.Origin,
				pinset.ErrDuplicateSet, set.Name, name)
		}
	}
	return files, err
}

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
	n := installed(c)
	n.Sets, n.Registries, n.PullSecret, n.StoreFiles = nil, nil, nil, nil
	n.Pins, n.OthersList = o.Pins(), o.RuntimeConfig()
	parts, err := n.Parts()
	return parts.Managed(), err
}

// installed is the node on its own disk: the store that the live system has in its ISO, is in a partition then.
func installed(c ignition.Config) provision.Node {
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
