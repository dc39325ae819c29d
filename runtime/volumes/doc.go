// Package volumes writes images of read-only stores into CRI-O's own store, with all their layers and without a
// registry. CRI-O mounts an image volume only if the topmost layer of the image is there.
//
// It does not decide which images are copied, nor whether they fit: package runtime does. It does not mount
// stores: package stores does.
//
// Start with [Copy].
package volumes
