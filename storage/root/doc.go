// Package root has the containers/storage library write a store: the root of an overlay graph,
// which CRI-O and podman can use as their own.
//
// Images have the IDs, names and documents that storage/compose gives them, and are found by the
// same digests. What the library makes up by itself, the times of layers and the short names that
// they are mounted by, differs from one store to the next.
//
// It also has the library examine stores that are mounted together. It is not the way in which
// read-only stores are made: that is storage/compose, which needs neither root nor the library.
//
// Start with New to write and with Examine to compare. A program that uses either calls Init
// first.
package root
