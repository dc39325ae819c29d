// Package iso edits CoreOS live ISOs in place, and writes media that hold data only. It
// adds files to the folder pinbox, replaces the Ignition config and the kernel arguments,
// and can undo this. All data of the base stays at its offset: only descriptors,
// directories and partition tables change.
//
// It does not read ISO 9660 itself: storage/iso9660 does. It does not build bootable
// images: it edits a copy of one.
//
// Start with Base and Create. OpenFile and Image.Info describe an image.
package iso
