// Package registry resolves images before CRI-O pulls them: it reads their manifests, which have
// the digests and sizes of layers. It finds mirrors and credentials with CRI-O's own library, from
// the same files, so that it reads from the registry that CRI-O will pull from.
//
// It does not fetch layers: CRI-O does.
//
// Start with Client.
package registry
