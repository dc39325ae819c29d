// Package fetch gets the store of an appliance from an HTTP server to the disk of a node, once.
//
//   - Find asks a server for all but the store: its digest, its size and its signature. A store that could not be
//     attached is refused before it is fetched.
//   - Store.Fetch continues after an interruption, and its file has its name only when it has the digest.
//
// It believes nothing that a server says: the digest comes with the name, or from sums that a signature of the store
// makes irrelevant, and whoever attaches the store verifies it. How long to wait for a server is what package download
// says. It does not attach stores, and is not for registries.
package fetch
