// Package verify checks that an appliance's folder or ISO is unchanged and consistent: it hashes every file,
// compares the files with each other, and a delta with its bases.
//
// It does not check the contents of layers. The exception is a delta with its bases: containers/storage
// checks them while all of them are mounted.
//
// Start at Artifact and WithBases.
package verify
