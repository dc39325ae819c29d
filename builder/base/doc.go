// Package base is what a delta is made for: what nodes have, read from an appliance's folder, an ISO
// or a lock, and which layers of a release they therefore lack.
//
// The delta's store is written by package format, and compared with its bases by package verify.
//
// Start at Read and NewCommon.
package base
