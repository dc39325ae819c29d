// Package verify finds out whether what was built is still what it was: it hashes everything in an
// appliance's folder or ISO again, compares what the files say of each other, and a delta with its
// bases.
//
// It does not look into the layers, but for a delta with its bases, mounted; containers/storage does.
//
// Start at Artifact and WithBases.
package verify
