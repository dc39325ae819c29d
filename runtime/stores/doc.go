// Package stores manages the read-only image stores of a node. It finds a store in a file, in
// a folder or on a medium, verifies and copies it, mounts it where CRI-O looks for images, and
// keeps the folder of sets in step with the current release. It also reads which images and
// layers the stores of a node have.
//
// Start with [Manager]: its verbs are Attach, Detach, DetachUnused, Rollback, Compact, Reconcile
// and Look. A verb that changes something takes the lock of the stores, reads the [State], makes
// the node as the state says, and then writes the new state before it changes the node. So a
// process may be killed at any point: the next one goes on from the state.
//
// What a verb decides is decided in one place each:
//
//   - sources: where the bytes of a store are, and whether they are those that it should have
//   - mounts: which stores can be mounted, and at which mount points
//   - usage: what on the node needs a store
//   - releases: what is in the folder of sets
//
// The package does not ask CRI-O anything, and does not pin or pull images: see package runtime.
package stores
