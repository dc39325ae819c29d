// Package demo writes the sample images of `pinbox demo`: an OCI image layout of two
// images, made with no registry and no library for making images.
//
// It is not test material. Images that hold every special case of a layer are those of
// fixtures/sample, which no program links.
//
// Start with Write.
package demo
