// Package tail reads blobs of registries from a byte on.
//
// containers/image does that with credentials, mirrors and certificates as it does everything
// else, but for its own use alone: docker's image source has the method GetBlobAt, whose last
// parameter is of a type that others cannot name, ImageSourceChunk in
// go.podman.io/image/v5/internal/private/private.go. This package is the one place that calls it,
// by reflection, and it compares all that it relies on before the call. Its tests call a real
// source and fail once an update of the library changes that; builds then go on without ranges.
//
// It verifies no digest: the caller does, of the whole blob. Start with Open.
package tail
