// Package pinset defines the types that all of pinbox shares: image references, PinnedImageSets,
// the lock, which lists the exact content of an appliance, and the description of a delta. It
// decodes, validates, encodes and compares them.
//
// It does no I/O other than with the readers and writers that its callers pass, and it contacts no
// registry: package storage resolves images.
//
// Start with [Image] and [ParseImage], with [Set] and [DecodeSets], and with [Lock].
package pinset
