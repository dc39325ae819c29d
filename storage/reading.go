package storage

import (
	"sync/atomic"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Reading says how far the layer of an image is that is being fetched and packed.
type Reading struct {
	// Image is one that has the layer, and Layer the digest of its blob.
	Image pinset.Image
	Layer digest.Digest
	// Done is what was read of its Size, in bytes; a size that is not known is negative.
	Done, Size int64
	// Ended means that no more of it is read.
	Ended bool
}

// watch returns what counts the bytes of a layer, and what is called at its end. say is told of both; it and count may
// be nil.
func watch(say func(Reading), img pinset.Image, l *pinset.LockedLayer, count func(int)) (read func(int), end func()) {
	if say == nil {
		return count, func() {}
	}
	var done atomic.Int64
	tell := func(ended bool) { say(Reading{img, l.Digest, done.Load(), l.Size, ended}) }
	tell(false)
	return func(n int) {
		if count != nil {
			count(n)
		}
		done.Add(int64(n))
		tell(false)
	}, func() { tell(true) }
}
