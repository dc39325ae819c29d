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
// smaller one is sooner fetched again. It is also what has to arrive for a registry that
// stalled to be asked as often as before.
const minResumed = 1 << 20

// resumed reads a blob out of what was fetched of it earlier, and the rest from the
// registry, which it keeps beside.
type resumed struct {
	ctx     context.Context
	src     *source
	want    imgtypes.BlobInfo
	part    *cache.Partial // nil to keep nothing
	have    int64          // bytes in part
	at      int64          // bytes that were read
	started time.Time

	body *flow
	// from is where the registry was asked to begin, and asked where r was then.
	from, asked int64
	// whole says that a range has stalled: a registry that knows none first sends what
	// stands before it, of which the library tells nothing.
	whole  bool
	stalls int
}

// resume reads a blob; part may be nil.
func (s *source) resume(ctx context.Context, want imgtypes.BlobInfo, part *cache.Partial) (*resumed, error) {
	r := &resumed{ctx: ctx, src: s, want: want, part: part, started: time.Now()}
	if part == nil {
		return r, nil
	}
	have, err := part.Size()
	if have <= want.Size { // else it is not what it should be
		r.have = have
	}
	return r, err
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
	if err == nil || errors.Is(err, io.EOF) || r.ctx.Err() != nil {
		return n, err
	}
	switch {
	case errors.Is(err, ErrStalled):
		if r.at >= r.asked+minResumed {
			r.stalls = 0
		}
		if r.stalls++; r.stalls == attempts {
			return n, r.stalled()
		}
	// The library asks again for what is missing of a whole blob, but not of a part.
	case r.from == 0 || r.at == r.from:
		return n, err
	}
	return n, r.Close()
}

// fetch reads from the registry.
func (r *resumed) fetch(p []byte) (int, error) {
	if r.body == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.body.Read(p)
	r.keep(p[:n])
	r.at += int64(n)
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
	r.from, r.asked = r.at, r.at
	if r.at > 0 && !r.whole {
		r.body, err = r.src.wait.open(r.ctx, func(ctx context.Context) (io.ReadCloser, error) {
			return tail.Open(ctx, r.src.ImageSource, r.want, r.at)
		})
		r.whole = errors.Is(err, ErrStalled)
		if err == nil || r.whole || r.ctx.Err() != nil {
			return err
		}
	}
	r.from = 0
	if r.body, err = r.src.wait.open(r.ctx, func(ctx context.Context) (io.ReadCloser, error) {
		body, _, err := r.src.ImageSource.GetBlob(ctx, r.want, none.NoCache)
		return body, err
	}); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, r.body, r.at) // which a registry that knows no ranges sends again
	return err
}

// stalled tells how far it got.
func (r *resumed) stalled() error {
	return fmt.Errorf("%w: %s has sent %d of %d bytes in %v, and fewer than %d a second in the last %v; it was asked %d times",
		ErrStalled, r.src.wait.host, r.at, r.want.Size, time.Since(r.started).Round(time.Second/10), slowest, r.src.wait.limit, attempts)
}

func (r *resumed) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}
