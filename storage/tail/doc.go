// Package tail reads a blob of a registry from an offset to its end, so that an interrupted download
// can continue.
//
// containers/image can read ranges, with the credentials, mirrors and certificates of other requests,
// but does not export it: docker's image source has the method GetBlobAt, with a parameter of the
// internal type ImageSourceChunk (go.podman.io/image/v5/internal/private/private.go). This package is
// the only one that calls it, by reflection, after it has checked all types. Its tests call a real
// source, and fail if an update of the library changes the method. Builds then read whole blobs.
//
// It does not verify digests: the caller verifies the complete blob. Start with Open.
package tail
