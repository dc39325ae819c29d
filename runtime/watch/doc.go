// Package watch finds the PinnedImageSets that a node has to follow: in the folder of sets, for
// the node's pools, and again when a file changes.
//
// It judges sets as the cluster's API does, but does not ask a cluster for them. Start with ReadSets
// and Changes.
package watch
