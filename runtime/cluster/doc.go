// Package cluster follows the PinnedImageSets of a cluster for a node: it decides which of them count for the node, and
// keeps what it knows of them in a document, so that the node has its sets while the API is away.
//
// It also writes the report of the node.
//
// It makes no pass. The sets of files are those of package watch.
//
// Start with Known, which is the document, with Follow, which keeps it current, and with Report.
package cluster
