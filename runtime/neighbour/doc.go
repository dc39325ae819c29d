// Package neighbour brings the file of a store from one node of a site to the next, so that a slow link outside is used
// once. A Server offers the files that a node has, also one that is just being fetched, by their digests and to be read
// only. A Download finds out which neighbour has more of a file than this node, or which node asks the source.
//
// Neighbours are not trusted. What they give is a stream of bytes, which the caller compares with a digest before it
// reads anything in it: see package fetch. Neither type attaches a store.
//
// Start with Server and Download.
package neighbour
