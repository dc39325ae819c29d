// Package release opens a release in whatever form it comes: the folder that a build makes, with its store as a file,
// in parts or as a folder; an ISO or a medium, in a file or on a device; the folder where a store is mounted; or a lock
// alone.
//
// The sums, and their signature if there are keys, are read when a release is opened. Everything else, which are the
// lock, the provenance, other documents and the store, is read when it is asked for. What a document means is known to
// other packages: storage/pinset, storage/layout and builder/provenance.
//
// The package writes nothing, and mounts nothing. Start at Open.
package release
