// Package resolve turns the material of an appliance's sources into pinned sets and resolved images: tags
// become digests, local images and releases become sets, and the manifest of every image is fetched.
//
// It does not read the sources, which package source does, and does not read any layer.
//
// Start at Resolve.
package resolve
