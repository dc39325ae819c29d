// Package remote finds a store on an HTTPS server, and brings it to the disk of the node with the
// signatures that are next to it there. Then it is attached like a store on a medium, with the same checks.
//
// It believes nothing that it gets: the digest comes with the name, or from sums that a signature of the store makes
// irrelevant, and whoever attaches the store verifies it. It does not attach stores: package stores does.
//
// Start with Find.
package remote
