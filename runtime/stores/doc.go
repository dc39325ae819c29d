// Package stores manages the read-only image stores of a node. It finds a store in a file, in
// a folder or on a medium, verifies and copies it, mounts it at a slot that CRI-O reads, and
// writes the sets of the current release into the folder of sets. It also reads the images and
// layers that the stores of a node have.
//
// Start with [Manager]: its methods are Attach, Detach, DetachUnused, Rollback, Compact,
// Reconcile and Status. A method that changes something takes the lock of the state and reads the
// [State]. It saves the new state before it changes the node. So a process may be killed at any
// point: the next one reads the state and completes the change.
//
// Each decision is made in one type:
//
//   - sources: where a store is, and whether it has the expected digest and signature
//   - mounts: which stores can be mounted
//   - usage: what on the node needs a store
//   - releases: which files are in the folder of sets
//
// The package does not talk to CRI-O, and does not pin or pull images: package runtime does.
package stores
