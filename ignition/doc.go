// Package ignition writes the first-boot configuration of an appliance: as Butane, for people, and
// as Ignition, for the node.
//
// The Butane of the user is merged into it; what would override pinbox's own files and units is an
// error. It also reads back what it has written, for verify and for ISOs.
//
// It runs nothing on a node and writes no ISO. Start with Config and Render for a node, and with
// Installer for a live system that installs one.
package ignition
