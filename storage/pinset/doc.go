// Package pinset has the types that all of pinbox shares: images by their names and digests, sets
// of them (PinnedImageSet), and the lock, which says exactly what an appliance holds. It decodes
// and encodes them, compares them, and says what a cluster would refuse of them.
//
// It does no I/O but with readers and writers that it is given, and asks no registry: package
// storage resolves images.
//
// Start with Image and ParseImage, with Set and DecodeSets, and with Lock.
package pinset
