// Package atomicfile is the one way in which pinbox writes a file: under a temporary name, synced,
// renamed, and the folder synced. A reader, or a run after a crash at any point, finds the old
// file or the new one, complete.
//
// It is not for streams that may appear while they grow.
//
// Start with Write for small files, and with Create for files that are written piece by piece.
package atomicfile
