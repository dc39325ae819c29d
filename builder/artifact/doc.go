// Package artifact is the folder that a build makes, and the ISO of it: the names of their files, how
// the folder grows and takes its place, its sums, and how folder, ISO and lock are read back.
//
// It knows neither what the files say, beside the lock, nor how a store is written: for that there
// are packages verify and format.
//
// Start at Stage for writing, and at ReadLock, ReadSums and Inspect for reading.
package artifact
