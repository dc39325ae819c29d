// Package provenance writes and reads the statement about a build: an in-toto Statement v1 with the predicate of SLSA
// provenance v1. It says what was made, of which inputs by digest, and by which pinbox. Equal builds give equal
// bytes, so it has no times of its own.
//
// It does not sign: the sums list the file, and the signature of the sums covers it.
//
// Start at Build.Statement and at Decode.
package provenance
