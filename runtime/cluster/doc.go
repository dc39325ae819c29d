// Package cluster follows the PinnedImageSets of a cluster for a node: it decides which of them count for the node, and
// keeps what it knows of them in a document, so that the node has its sets while the API is away.
//
// It makes no pass, and writes nothing to the API. The sets of files are those of package watch.
//
// Start with Known, which is the document, and with Follow, which keeps it current.
package cluster
