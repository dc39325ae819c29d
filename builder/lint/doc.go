// Package lint finds what in Kubernetes objects will contact a registry although the node has
// none: policies, tags, images that the lock does not have, sets that the cluster refuses.
//
// It reads no files and asks no registry: builder/source reads the objects. Start with Check.
package lint
