// Package openshift renders the objects that give an appliance to the nodes of an OpenShift cluster: the MachineConfigs
// of its pools, the policy by which they restart CRI-O and reboot nothing, and what shows the stores to podman.
//
// It does not know what a node must hold, which package runtime/provision does, and does not write PinnedImageSets,
// which package storage/pinset does.
//
// Start at Manifests.
package openshift
