// Package root writes a graph root with the containers/storage library: the store format "dir",
// which CRI-O and podman can use as their own store and write to.
//
// Images have the same IDs, names and documents as in storage/compose, and are found by the same
// digests. The library generates the times and link names of layers, so these differ between
// stores.
//
// The package also checks stores with the library, mounted together. It does not make read-only
// stores: storage/compose does, without root privileges and without the library.
//
// Start with [New] to write a graph root and with [Examine] to check stores. A program that uses
// either calls [Init] first.
package root
