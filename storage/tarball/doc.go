// Package tarball writes the tree of a store as a tar stream.
//
// The stream is POSIX.1-2001 (pax): names in the order of their bytes, owners by number, times of
// whole seconds, extended attributes as SCHILY.xattr records (like star, GNU tar and Go), whiteouts
// as the character devices 0:0 that overlayfs reads, files with several names as links to the first
// name. The bytes are a function of the trees and of the order in which they are written.
//
// The package does not read archives. Start with [NewWriter]: a [Writer] is an Output of
// storage/compose.
package tarball
