// Package firstboot renders the configuration that a node reads at its first boot: the Butane and Ignition
// configs of an appliance and of a live system that installs it, and the objects of a cluster with the same. Files that
// do not fit into the Ignition area of the ISO are left for the store.
//
// It does not know what is in the configs, which package ignition does.
//
// Start at Configure.
package firstboot
