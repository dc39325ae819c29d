// Package format writes the store of an appliance as a squashfs or a folder. The tree in it is made
// by storage/compose, or by the containers/storage library.
//
// Everything that depends on the format is behind the interface Format: no other package compares the names
// of formats. A new format is one file here and one row in the table.
//
// It does not know the other files of an appliance's folder; these are in package artifact.
//
// Start at Format. Of returns a format by its name in the appliance file, Find by the sums of a folder.
package format
