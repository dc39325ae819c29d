// Package aside sets records of CRI-O's own store aside that stand on layers of a store which is gone: with one of
// them, CRI-O lists no image. It keeps them in a file of the node's state, and puts them back when the store is there
// again.
//
// Which records these are, and how they are taken out and put back, is in storage/root. The package does not mount
// stores: that is runtime/stores.
package aside
