// Package look shows the files of an image in a store as a container sees them, and writes the image as an OCI layout.
// It needs no privileges, and mounts nothing.
//
// View merges the layers of an image as overlayfs does; it knows no store. Open opens releases, of a delta with its
// bases, and Find picks an image by what a user calls it.
//
// The content of a file is what the store has: Images.Extract compares layers with their DiffIDs, View does not.
//
// Start at Open.
package look
