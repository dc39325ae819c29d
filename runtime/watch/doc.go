// Package watch reads the PinnedImageSets of a node from the folder of sets, for the node's pools,
// and reports when a file changes.
//
// It validates sets as the cluster's API does, but does not read them from a cluster. Start with
// ReadSets and Changes.
package watch
