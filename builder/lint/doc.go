// Package lint finds what in Kubernetes objects contacts a registry, or fails, on a node without
// one: pull policies, tags, images that are not in the lock, sets that the cluster's API refuses.
//
// It reads no files and contacts no registry: builder/source reads the objects. Start with [Check].
package lint
