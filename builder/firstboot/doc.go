// Package firstboot renders what a node reads at its first boot: the Butane and Ignition configs of an
// appliance, those of a live system that installs it, and what of them the store has to carry because
// the ISO has no room for it.
//
// What is in the configs is package ignition's business.
//
// Start at Configure.
package firstboot
