// Package crio reads and writes CRI-O's configuration files: the drop-ins that pin images and name
// the node's stores. It also has CRI-O reload them, and reads what CRI-O logs about it.
//
// It does not ask CRI-O for images: that is runtime/cri.
//
// Start with RenderPinned and RenderStores for the drop-ins, with ReadConfig for what all files
// say together, and with Pins for the file on a node.
package crio
