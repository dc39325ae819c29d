// Package iso9660 reads ISO 9660 images (ECMA-119) without the kernel: files by their
// path, through Joliet's names, Rock Ridge's or the plain ones, and files of several
// extents, as those above 4 GiB have. Volumes and directory records are exported for who
// edits an image.
//
// It writes nothing: builder/iso does. It reads neither El Torito's boot catalogue nor
// UDF, and does not verify checksums, as the format has none.
//
// Start with OpenFile and Image.Find.
package iso9660
