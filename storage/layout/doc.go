// Package layout defines the formats that pinbox and pinbox-node share: the names of files,
// folders, labels and partitions, and the records of an image store. docs/format.md specifies
// them.
//
// [Store] reads the documents of an image store, and [Sums] is the content of SHA256SUMS. Each
// document has one reader, which limits its size and validates every ID, digest, name and path,
// so that callers need not check them again. The types of the lock and of a delta's description,
// with their readers, are in storage/pinset.
//
// The package does not compose a store (storage/compose does), and does not mount one
// (runtime/stores does). Start with [Open] and with the constants.
package layout
