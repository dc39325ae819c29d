// Package crio reads and writes CRI-O's configuration files: the drop-ins that pin images and name
// the node's stores. It also makes CRI-O reload them, and reads the result from CRI-O's log.
//
// It does not list or pull images: that is runtime/cri.
//
// Start with RenderPinned and RenderStores for the drop-ins, with ReadConfig for the sum
// of all files, and with Pins for the drop-in of a node.
package crio
