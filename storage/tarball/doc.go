// Package tarball writes the tree of a store as a tar stream.
//
// The stream is POSIX.1-2001 (pax): names in the order of their bytes, owners by number, times of
// whole seconds, extended attributes as SCHILY.xattr records (as star, GNU tar and Go have them),
// whiteouts as the character devices 0:0 that overlayfs reads, files with several names as links
// to the first. Its bytes are a function of the trees and of the order in which they are written.
//
// It reads no archives. Start with NewWriter, which is an Output of storage/compose.
package tarball
