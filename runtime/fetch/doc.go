// Package fetch gets the store of an appliance from an HTTP server to the disk of a node, once:
// it continues after an interruption, and the file has its name only when it has the digest that
// the configuration names. It trusts nothing that the server says.
//
// Start with Store. It does not mount the store, and is not for registries.
package fetch
