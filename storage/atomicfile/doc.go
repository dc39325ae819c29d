// Package atomicfile is the one way in which pinbox replaces a file: it writes a temporary file,
// syncs it, renames it, and syncs the directory. A reader, and the next run after a crash at any
// point, finds the old file or the new one, complete.
//
// It is not for files that others read while they grow.
//
// Start with Write for small files, and with Create for files that are written piece by piece.
package atomicfile
