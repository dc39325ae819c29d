// Package compose writes layers, manifests and configurations as the tree of a containers/storage
// store: the read-only image store of an appliance.
//
// It extracts nothing to disk: it reads each layer as a stream, once, and verifies its digest.
// Names, links, time stamps and order depend on the content alone, so equal input gives equal
// bytes. The package also compacts stores: a base and its deltas become one store.
//
// It does not fetch blobs (package storage does), and it does not write files: storage/squashfs
// is the output. For a graph root that CRI-O can write to, see storage/root.
//
// Start with [PackLayer] and [NewStore], with [NewCompaction], and with the example.
package compose
