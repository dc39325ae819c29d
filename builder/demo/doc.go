// Package demo writes the sample images of `pinbox demo`: an OCI image layout with two images, written without
// a registry and without a library.
//
// It is not test material: images with every special case of a layer are in fixtures/sample, which no program
// links.
//
// Start at Write.
package demo
