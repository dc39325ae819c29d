// Package registry asks registries what an image is made of, before CRI-O pulls it. It resolves
// mirrors and credentials with CRI-O's own library, from the same files, so that it reaches what
// CRI-O will reach.
//
// It fetches no layers: CRI-O does. Start with Client.
package registry
