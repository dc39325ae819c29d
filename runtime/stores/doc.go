// Package stores manages the read-only image stores of a node. It finds a store in a file, in
// a folder or on a medium, verifies and copies it, mounts it at a slot that CRI-O reads, and
// writes the sets of the current release into the folder of sets. It also reads the images and
// layers that the stores of a node have.
//
// A slot is a mount point that CRI-O's configuration names; each store has one. A release is what a store brings: its
// number, its sets, its program; one release is current, and those before it stay for a rollback. The [State] is the
// list of both, on the disk. A session is one process that holds the lock of the state; what it changes it saves first
// and does then, so that the next session completes what a killed process has begun. A source is where a new store was
// found, on a medium or elsewhere; staged, it is copied and verified, and only then its documents are read.
//
// Start with [Manager]: its methods are Attach, Detach, DetachUnused, Rollback, Compact,
// Reconcile and Status.
//
// Each decision is made in one type:
//
//   - sources: where a store is, and whether it has the expected digest and signature
//   - mounts: which stores can be mounted; package mount mounts them
//   - usage: what on the node needs a store
//   - releases: which files are in the folder of sets
//
// The package does not talk to CRI-O, and does not pin or pull images: package runtime does.
package stores
