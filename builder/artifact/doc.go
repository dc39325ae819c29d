// Package artifact reads and writes the folder that a build makes, and the ISOs made of it: the names of
// their files, the stage in which a folder is written, its sums, and second media.
//
// It does not write the store, which package format does, and does not compare the contents of the files,
// which package verify does.
//
// Start at Stage for writing, and at ReadLock, ReadSums and Inspect for reading.
package artifact
