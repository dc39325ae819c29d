// Package audit checks that an image store matches its records, before a node or a build
// trusts it: every document of an image has its digest, every record has its files and every
// file its record, and the tree has no other files, links or devices. docs/format.md specifies
// what a store has.
//
// It does not read the contents of layers, which the DiffIDs verify, and it knows no sums, no
// signatures and no other stores: runtime/stores does.
//
// Start with [Store] and [Records].
package audit
