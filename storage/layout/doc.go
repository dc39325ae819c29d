// Package layout is the contract between pinbox and pinbox-node: how files, folders, labels
// and partitions are called, and what the documents in them look like.
//
// docs/format.md specifies the formats; the names stand in names.go. [Store] reads the
// documents of an image store and [Sums] those of SHA256SUMS: each document has this one
// reader, which checks every ID, digest, name and path as it reads it and takes no more than
// its budget, so that callers need not look at them again. The types of lock and delta, with
// their readers, are in storage/pinset.
//
// It is not what composes a store (storage/compose), nor what mounts one (runtime/stores).
package layout
