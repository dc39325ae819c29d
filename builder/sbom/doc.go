// Package sbom makes the inventory of a store, as SPDX 2.3 and CycloneDX 1.6: its images with their digests and
// layers, who asked for them, and the packages of the operating system in them. It reads the databases of dpkg, apk
// and rpm in the layers of the store.
//
// It reads the databases of rpm itself, since the library for them does not end with some that are damaged.
//
// It does not find packages of languages, or programs that no package has. It does not verify the store: run
// `pinbox verify` first. Equal stores give equal bytes.
//
// Start at Read, and at SPDX and CycloneDX for the documents.
package sbom
