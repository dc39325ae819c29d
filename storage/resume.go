package storage

import (
	"cmp"
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

// minResumed is the smallest blob that is stored while it is fetched, in bytes: to fetch a smaller
// one again costs less. It is also the progress after which failed attempts are no longer counted:
// bodyReaderMinimumProgress in docker/body_reader.go of containers/image.
const minResumed = 1 << 20

// resumed reads the beginning of a blob from a file of an earlier fetch, and the rest from the
// registry. It appends the rest to the file.
type resumed struct {
	ctx  context.Context
	src  *imageSource
	want imgtypes.BlobInfo
	part *cache.Partial // nil to store nothing
	have int64          // bytes in part
	at   int64          // bytes that were read

	// extra are its connections, of those of all blobs; nil if this one uses none of them.
	extra     *extra
	connected bool // one of them is that of body
	// end is the offset in the blob to which body is read. Parts behind it are in next, and their bytes in the folder tmp.
	end   int64
	next  []*ahead
	tmp   string
	alone bool // no parts are fetched by other connections
	// onlyRange is true if a registry that does not support ranges is an error.
	onlyRange bool

	body *blobStream
	// bodyAt is the offset of body in the blob, in bytes. It is less than at if the registry does
	// not support ranges.
	bodyAt int64
	// noRanges is true if requests are for the complete blob from now on. A registry that does not
	// support ranges answers with the complete blob; the library skips its beginning without
	// returning bytes, which looks like a stall.
	noRanges bool
	// requests is how many requests were made since started.
	requests int
	started  time.Time
	// failed is how many requests failed since counted bytes were read.
	failed  int
	counted int64
}

// resume opens a blob; part may be nil.
func (s *imageSource) resume(ctx context.Context, want imgtypes.BlobInfo, part *cache.Partial) *resumed {
	r := &resumed{ctx: ctx, src: s, want: want, part: part, end: want.Size}
	if part == nil {
		return r
	}
	if have, err := part.Size(); err == nil && have <= want.Size { // else part is of no use
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
	if r.at < r.end && r.end == r.want.Size { // the next bytes come first
		if err := r.connect(); err != nil {
			return 0, err
		}
	}
	if err := r.spread(); err != nil {
		return 0, err
	}
	whole := r.end == r.want.Size && !r.onlyRange
	if r.at == r.end && !whole {
		err := r.closeBody()
		switch {
		case err != nil || r.onlyRange:
			return 0, cmp.Or(err, io.EOF)
		case len(r.next) > 0:
			return r.follow(p)
		}
		r.end, whole = r.want.Size, true // no connection was free
	}
	if r.at == r.end && r.body == nil {
		return 0, io.EOF
	}
	if !whole { // else what is behind the end is an error
		p = p[:min(int64(len(p)), r.end-r.at)]
	}
	n, err := r.fetch(p)
	if errors.Is(err, io.EOF) && !whole { // of the part
		if err = nil; r.at < r.end {
			err = io.ErrUnexpectedEOF
		}
	}
	switch {
	case err == nil || errors.Is(err, io.EOF) || r.ctx.Err() != nil:
		return n, err
	case r.body == nil && !errors.Is(err, ErrStalled) && !overloaded(err): // the request was refused
		return n, err
	}
	if r.at >= r.counted+minResumed {
		r.failed, r.counted = 0, r.at
	}
	if r.failed++; r.failed >= attempts {
		return n, r.lastError(err)
	}
	r.src.wait.retry(fmt.Sprintf("blob %s of %s", r.want.Digest, r.src.wait.name), r.failed, err)
	if overloaded(err) {
		pause(r.ctx, r.failed)
	}
	return n, r.closeBody()
}

// fetch reads from the registry.
func (r *resumed) fetch(p []byte) (int, error) {
	if r.body == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	if r.bodyAt < r.at {
		skipped, err := io.CopyN(io.Discard, r.body, r.at-r.bodyAt)
		if r.bodyAt += skipped; err != nil {
			return 0, err
		}
	}
	n, err := r.body.Read(p)
	r.save(p[:n])
	r.at, r.bodyAt = r.at+int64(n), r.bodyAt+int64(n)
	return n, err
}

// save appends fetched bytes to the file. If that fails, it empties the file to free its space:
// only a later run would read it.
func (r *resumed) save(p []byte) {
	if r.part == nil {
		return
	}
	if _, err := r.part.WriteAt(p, r.at); err != nil {
		_ = r.part.Truncate(0) // the file is no longer read
		r.part = nil
		return
	}
	r.have = r.at + int64(len(p))
}

// open requests the rest of the blob from the registry.
func (r *resumed) open() (err error) {
	if r.requests == 0 {
		r.started = time.Now()
	}
	r.requests++
	if err := r.connect(); err != nil {
		return err
	}
	if r.bodyAt = r.at; (r.at > 0 || r.end < r.want.Size) && (!r.noRanges || r.onlyRange) {
		r.body, err = r.src.wait.open(r.ctx, func(ctx context.Context) (io.ReadCloser, error) {
			return tail.Open(ctx, r.src.ImageSource, r.want, r.at, r.end)
		})
		r.noRanges = errors.Is(err, ErrStalled)
		if err == nil || r.noRanges || r.onlyRange || r.ctx.Err() != nil {
			return err
		}
	}
	r.bodyAt = 0
	r.body, err = r.src.wait.open(r.ctx, func(ctx context.Context) (io.ReadCloser, error) {
		body, _, err := r.src.ImageSource.GetBlob(ctx, r.want, none.NoCache)
		return body, err
	})
	return err
}

// lastError adds the progress of the blob to the error of its last request.
func (r *resumed) lastError(err error) error {
	progress := fmt.Sprintf("%d requests to %s in %v, %d of %d bytes fetched",
		r.requests, r.src.wait.host, time.Since(r.started).Round(time.Second/10), r.at, r.want.Size)
	if errors.Is(err, ErrStalled) {
		return fmt.Errorf("%w: %w: %s; fewer than %d bytes per second in the last %v", ErrRegistry, ErrStalled, progress,
			minRate, r.src.wait.limit)
	}
	return fmt.Errorf("%s: %w", progress, err)
}

// Close ends the fetch.
func (r *resumed) Close() error {
	if r.extra != nil {
		r.extra.end()
	}
	return errors.Join(r.closeBody(), r.closeParts())
}

// connect waits for a connection.
func (r *resumed) connect() error {
	if r.extra == nil || r.connected {
		return nil
	}
	err := r.extra.wait()
	r.connected = err == nil
	return err
}

func (r *resumed) closeBody() error {
	if r.connected {
		r.extra.all.Release(1)
		r.connected = false
	}
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}
