// Package compose turns layers and manifests into one containers/storage tree: the read-only image
// store of an appliance.
//
// Layers flow through: nothing is extracted to disk, each layer is read once and verified on the
// way. Names, links, time stamps and order are functions of content. It also makes one store of
// several that stand on each other.
//
// It fetches nothing, and does not write the file: storage/squashfs and storage/tarball are the
// outputs. The store of a root that CRI-O may change is package storage/root's.
//
// Start with PackLayer and NewStore, and with the example.
package compose
