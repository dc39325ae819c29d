// Package provision says what the file system of a node must hold for pinbox: directories, files, and
// units of systemd.
//
// It writes nothing. Package ignition renders it as Ignition and as MachineConfigs, and package
// runtime/setup writes it to a node that has neither.
//
// Start with Node and its Parts. Installer is a live system that installs a node.
package provision
