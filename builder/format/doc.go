// Package format writes a store: the tree that storage/compose makes, or that the containers/storage
// library does, as a squashfs, a tar or a folder.
//
// Whatever depends on the format is asked of it, through the interface Format: no other package
// compares names of formats. A new one is a file here, and a row in the table.
//
// Start at Format. Of finds one by its name in the appliance file, Find by the sums of a folder.
package format
