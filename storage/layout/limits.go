package layout

import (
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Limits that whoever reads a store observes, and that a build observes before it fetches a layer.

// ErrTooLarge is the error for a store that exceeds the limits.
var ErrTooLarge = errors.New("image store exceeds the limits of pinbox")

// Limits for all documents of a store together: their bytes, and the number of records, of names in them, of
// sets, and of entries of the lock and of the description of a delta. With 2,000 images of 50 layers each, all of
// them different, the records have 48 MB and the lock 41 MB; and each layer has a record and is in the lock. The
// documents of an OpenShift release, with about 200 images and 1,000 layers, take less than a tenth of that.
const (
	MaxStoreBytes   = 128 << 20
	MaxStoreRecords = 300_000
)

// MaxRecordBytes is the limit for one record in bytes, more than twice the size of the largest that
// other programs write. The record of a layer lists its owners: 65,536 users and as many groups,
// the range of a user namespace (subuid(5)), of up to 11 bytes each are 1.4 MiB. The record of an
// image lists its names, now and in its history: 1,000 names with a repository of 255 bytes
// (NameTotalLengthMax of distribution/reference), a tag of 128 and a digest of 71 are 0.9 MiB. It
// can also list a mapped top layer for each ID mapping, of 67 bytes; the 500 layers that an image
// may have (MaxLayers) are records of their own.
const MaxRecordBytes = 4 << 20

// Limits for documents that are in memory as a whole, in bytes.
const (
	// MaxSetBytes is the limit for a file of sets: 500 images, the most in a PinnedImageSet, of up to
	// 447 characters each take 220 KiB. A YAML parser needs up to 300 times as much memory.
	MaxSetBytes = 256 << 10
	// maxToken is for the lock files of layers and images; containers/storage writes 64 bytes.
	maxToken = 4 << 10
)

// Limits for the manifests, indexes, configurations and signatures of images.
const (
	// MaxDocumentBytes is the limit for one of them: MaxManifestBodySize and MaxConfigBodySize in containers/image,
	// internal/iolimits.
	MaxDocumentBytes = 4 << 20
	// MaxDocumentsBytes is the limit for those of all images together. Those of an OpenShift release, with about 200
	// images, have 10 MiB.
	MaxDocumentsBytes = 256 << 20
	// MaxListed is the limit for the manifests in an index. That of a multi-platform image with attestations lists 30,
	// that of all models of a site a thousand.
	MaxListed = 10_000
	// MaxLayers is the limit for the layers of an image: maxDepth in containers/storage, drivers/overlay.
	MaxLayers = 500
)

// ErrLimit is the error for a release of which no store can be made that nodes read.
var ErrLimit = fault.New(fault.Input, "larger than a node reads",
	"make two releases of it, under two names of appliances; docs/format.md has all limits")

// CheckLimits returns ErrLimit for a release that nodes would not read. documents is the size of all manifests,
// indexes, configurations and signatures in bytes. The lock may lack what is known after its layers were read, so that
// it can still become too large: then its Encode fails.
func CheckLimits(lock pinset.Lock, sets []pinset.Set, documents int64) error {
	for _, s := range sets {
		if n := len(s.Render()); n > MaxSetBytes {
			return fmt.Errorf("set %s: %w: its %d images take %d KiB, and a set takes %d at most; a cluster takes sets of 500 "+
				"images at most", s.Name, ErrLimit, len(s.Images), n>>10, MaxSetBytes>>10)
		}
	}
	if documents > MaxDocumentsBytes {
		return fmt.Errorf("%w: the manifests and configurations of its images have %d MiB, and the limit is %d", ErrLimit,
			documents>>20, MaxDocumentsBytes>>20)
	}
	if n := lockEntries(lock); n > MaxStoreRecords {
		return fmt.Errorf("%w: the lock has %d entries, and the limit is %d", ErrLimit, n, MaxStoreRecords)
	}
	var size counter
	if err := lock.Encode(&size); err != nil {
		return err
	}
	if size > MaxStoreBytes {
		return fmt.Errorf("%w: the lock has %d MiB", ErrLimit, size>>20)
	}
	return nil
}

// counter counts the bytes that are written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// lockEntries returns how many records a lock counts as.
func lockEntries(l pinset.Lock) int {
	entries := len(l.Sets) + len(l.Images)
	for _, set := range l.Sets {
		entries += len(set.Images)
	}
	for _, img := range l.Images {
		entries += len(img.Layers) + len(img.Tags)
	}
	for _, a := range l.Artifacts {
		entries += 1 + len(a.Blobs) + len(a.Tags)
	}
	return entries
}
