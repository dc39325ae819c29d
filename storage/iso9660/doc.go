// Package iso9660 reads ISO 9660 images (ECMA-119) in files and on devices, without mounting them.
//
// It finds files by their path. Names are those of Joliet if the image has it, else those of Rock
// Ridge, else the plain ones. Files of several extents, as those above 4 GiB are, read as one.
// Volumes and directory records are exported for programs that edit an image.
//
// The package does not write images: builder/iso does. It reads neither El Torito's boot catalog
// nor UDF, and verifies no content: the format has no checksums.
//
// Start with OpenFile and Image.Find. The example lists an image.
package iso9660
