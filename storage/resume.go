package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.podman.io/image/v5/pkg/blobinfocache/none"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/tail"
)

// minResumed is from which size on a blob is kept while it is fetched, in bytes: a
// smaller one is sooner fetched again. It is also what has to arrive for failed attempts
// to be forgotten: bodyReaderMinimumProgress in docker/body_reader.go of containers/image.
const minResumed = 1 << 20

// resumed reads a blob out of what was fetched of it earlier, and the rest from the
// registry, which it keeps beside.
type resumed struct {
	ctx  context.Context
	src  *imageSource
	want imgtypes.BlobInfo
	part *cache.Partial // nil to keep nothing
	have int64          // bytes in part
	at   int64          // bytes that were read

	body *blobStream
	// from is where body is in the blob: before at, if the registry knows no ranges.
	from int64
	// whole: ask for the whole blob from now on. A registry without ranges answers a range
	// request with the whole blob; the library skips the beginning silently, which looks
	// like a stall.
	whole bool
	// asked is how many requests were made since started.
	asked   int
	started time.Time
	// failed is how many of them failed since counted bytes were read.
	failed  int
	counted int64
}

// resume reads a blob; part may be nil.
func (s *imageSource) resume(ctx context.Context, want imgtypes.BlobInfo, part *cache.Partial) *resumed {
	r := &resumed{ctx: ctx, src: s, want: want, part: part}
	if part == nil {
		return r
	}
	if have, err := part.Size(); err == nil && have <= want.Size { // else it is fetched anew
		r.have = have
	}
	return r
}

func (r *resumed) Read(p []byte) (int, error) {
	if r.at < r.have {
		n, err := r.part.ReadAt(p[:min(int64(len(p)), r.have-r.at)], r.at)
		r.at += int64(n)
		return n, err
	}
	if r.body == nil && r.at == r.want.Size {
		return 0, io.EOF
	}
	n, err := r.fetch(p)
	switch {
	case err == nil || errors.Is(err, io.EOF) || r.ctx.Err() != nil:
		return n, err
	case r.body == nil && !errors.Is(err, ErrStalled): // it refuses, or is not there
		return n, err
	}
	if r.at >= r.counted+minResumed {
		r.failed, r.counted = 0, r.at
	}
	if r.failed++; r.failed >= attempts {
		return n, r.givenUp(err)
	}
	r.src.wait.retry(fmt.Sprintf("blob %s of %s", r.want.Digest, r.src.wait.name), r.failed, err)
	return n, r.Close()
}

// fetch reads from the registry.
func (r *resumed) fetch(p []byte) (int, error) {
	if r.body == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	if r.from < r.at {
		skipped, err := io.CopyN(io.Discard, r.body, r.at-r.from)
		if r.from += skipped; err != nil {
			return 0, err
		}
	}
	n, err := r.body.Read(p)
	r.keep(p[:n])
	r.at, r.from = r.at+int64(n), r.from+int64(n)
	return n, err
}

// keep writes what was fetched beside. Where that cannot be done, the room is given
// back: what is kept is not needed, unless this run is killed.
func (r *resumed) keep(p []byte) {
	if r.part == nil {
		return
	}
	if _, err := r.part.WriteAt(p, r.at); err != nil {
		_ = r.part.Truncate(0) // nothing else needs it
		r.part = nil
		return
	}
	r.have = r.at + int64(len(p))
}

// open asks the registry for what is missing.
func (r *resumed) open() (err error) {
	if r.asked == 0 {
		r.started = time.Now()
	}
	r.asked++
	if r.from = r.at; r.at > 0 && !r.whole {
		r.body, err = r.src.wait.open(r.ctx, func(ctx context.Context) (io.ReadCloser, error) {
			return tail.Open(ctx, r.src.ImageSource, r.want, r.at)
		})
		r.whole = errors.Is(err, ErrStalled)
		if err == nil || r.whole || r.ctx.Err() != nil {
			return err
		}
	}
	r.from = 0
	r.body, err = r.src.wait.open(r.ctx, func(ctx context.Context) (io.ReadCloser, error) {
		body, _, err := r.src.ImageSource.GetBlob(ctx, r.want, none.NoCache)
		return body, err
	})
	return err
}

// givenUp tells how far it got.
func (r *resumed) givenUp(err error) error {
	far := fmt.Sprintf("%s was asked %d times, and %d of %d bytes are here after %v",
		r.src.wait.host, r.asked, r.at, r.want.Size, time.Since(r.started).Round(time.Second/10))
	if errors.Is(err, ErrStalled) {
		return fmt.Errorf("%w: %w: %s; fewer than %d a second came in the last %v", ErrRegistry, ErrStalled, far, minRate,
			r.src.wait.limit)
	}
	return fmt.Errorf("%s: %w", far, err)
}

func (r *resumed) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}
