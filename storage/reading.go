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

// watch returns what counts the bytes of a layer, and what is called at its end.
func (f *fetcher) watch(j *job) (read func(int), end func()) {
	if f.Reading == nil {
		return f.count, func() {}
	}
	var done atomic.Int64
	say := func(ended bool) {
		f.Reading(Reading{j.img, j.layer.Digest, done.Load(), j.layer.Size, ended})
	}
	say(false)
	return func(n int) {
		f.count(n)
		done.Add(int64(n))
		say(false)
	}, func() { say(true) }
}
