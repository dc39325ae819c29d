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
	"github.com/pinbox/pinbox/storage/download"
)

const (
	// minResumed is the smallest blob that is stored while it is fetched, in bytes: to fetch a smaller
	// one again costs less.
	minResumed = 1 << 20
	// shortAnswers is how many answers may end at the same byte of a blob that is longer.
	shortAnswers = 3
)

// resumed reads the beginning of a blob from a file of an earlier fetch, and the rest from the
// registry. It appends the rest to the file.
type resumed struct {
	ctx  context.Context
	src  *imageSource
	turn *turn // of the places of the blob
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
	// only is the source of a part that another connection reads: it must have ranges. nil for a whole blob.
	only *remote

	body io.ReadCloser
	// bodyAt is the offset of body in the blob, in bytes. It is less than at if the registry does
	// not support ranges.
	bodyAt int64
	// noRanges is true if requests are for the complete blob from now on.
	noRanges bool
	// complete means that body is for the whole blob and has a length: it ends where the registry's blob ends.
	complete bool
	// requests is how many requests were made since started.
	requests int
	started  time.Time
	// failed is how many answers were lost since gained bytes were enough for progress, and short how many have ended at
	// the byte endedAt.
	failed, short   int
	gained, endedAt int64
}

// resume opens a blob; part may be nil.
func (s *imageSource) resume(ctx context.Context, want imgtypes.BlobInfo, part *cache.Partial) *resumed {
	r := &resumed{ctx: ctx, src: s, turn: s.turn(), want: want, part: part, end: want.Size}
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
	if r.extra != nil && r.source() == nil { // what it can do decides about the first request
		if _, err := r.turn.next(r.ctx); err != nil {
			return 0, err
		}
	}
	if err := r.spread(); err != nil {
		return 0, err
	}
	whole := r.end == r.want.Size && r.only == nil
	if r.at == r.end && !whole {
		err := r.closeBody()
		switch {
		case err != nil:
			return 0, err
		case r.only != nil:
			return 0, io.EOF
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
	if r.body == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.fetch(p)
	switch {
	case errors.Is(err, io.EOF) && whole && (r.at >= r.want.Size || r.complete):
		r.src.from.patience.Moved()
		return n, err // if it is too short, it does not have its digest
	case errors.Is(err, io.EOF) && r.at == r.end:
		return n, nil // of the part
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	if err == nil || r.ctx.Err() != nil {
		return n, err
	}
	return n, r.lost(err)
}

// fetch reads from the registry.
func (r *resumed) fetch(p []byte) (int, error) {
	if r.bodyAt < r.at {
		skipped, err := io.CopyN(io.Discard, r.body, r.at-r.bodyAt)
		if r.bodyAt += skipped; err != nil {
			return 0, err
		}
	}
	n, err := r.body.Read(p)
	r.save(p[:n])
	r.at, r.bodyAt = r.at+int64(n), r.bodyAt+int64(n)
	if r.gained += int64(n); r.gained >= r.src.from.patience.Enough() {
		r.gained, r.failed = 0, 0
		r.src.from.patience.Moved()
	}
	return n, err
}

// lost waits after a connection was lost in the middle of the blob, so that the rest is requested next, from the next
// place if there is one and this one does not get better. It returns an error if there is no hope.
func (r *resumed) lost(err error) error {
	defer r.closeBody()
	from := r.source()
	failure := download.Failed(err)
	if failure == nil {
		failure = &download.Failure{Err: err}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		if r.endedAt != r.at {
			r.endedAt, r.short = r.at, 0
		}
		r.short++
		failure.Err = fmt.Errorf("blob %s: the answer ends after %d of %d bytes: %w", r.want.Digest, r.at, r.want.Size, err)
	}
	r.failed++
	if r.short >= shortAnswers {
		err = fmt.Errorf("%w: %w", download.ErrFails, failure.Err)
	} else {
		err = from.host.Wait(r.ctx, failure, r.failed, from.most)
	}
	if err == nil || r.ctx.Err() != nil {
		return err
	}
	err = r.progress(err)
	if r.only != nil {
		return err
	}
	r.turn.failed(r.ctx, err)
	r.failed, r.short = 0, 0
	if _, err := r.turn.next(r.ctx); err != nil {
		return err
	}
	return nil
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

// source returns the source that is asked; nil before the first request.
func (r *resumed) source() *remote {
	if r.only != nil {
		return r.only
	}
	return r.turn.remote
}

// open requests the rest of the blob, from the first place that gives it.
func (r *resumed) open() error {
	if r.requests == 0 {
		r.started = time.Now()
	}
	if err := r.connect(); err != nil {
		return err
	}
	if r.only != nil {
		return r.request(r.only)
	}
	for {
		from, err := r.turn.next(r.ctx)
		if err != nil {
			return err
		}
		if err = r.request(from); err == nil || r.ctx.Err() != nil {
			return err
		}
		r.turn.failed(r.ctx, r.progress(err))
		r.noRanges = false
	}
}

// request requests the rest of the blob, by a range if it is not all of it.
func (r *resumed) request(from *remote) (err error) {
	r.bodyAt, r.complete = r.at, false
	if (r.at > 0 || r.end < r.want.Size) && (!r.noRanges || r.only != nil) {
		r.requests++
		ctx, answer := download.WithAnswer(download.WithRange(r.ctx, r.at, r.end))
		var size int64
		r.body, size, err = from.src.GetBlob(ctx, r.want, none.NoCache)
		switch {
		case err == nil && answer.Ranged, err != nil && (r.only != nil || r.ctx.Err() != nil || download.Failed(err) != nil):
			return withStatus(answer.Status, err)
		case err == nil && r.only != nil:
			return errors.Join(errNoRanges, r.closeBody())
		}
		r.noRanges = true
		if r.bodyAt = 0; err == nil { // it is the whole blob
			r.complete = size >= 0
			return nil
		}
	}
	r.requests++
	r.bodyAt = 0
	ctx, answer := download.WithAnswer(r.ctx)
	body, size, err := from.src.GetBlob(ctx, r.want, none.NoCache)
	r.body, r.complete = body, size >= 0
	return withStatus(answer.Status, err)
}

var errNoRanges = errors.New("the registry does not send parts of blobs")

// progress adds how far the blob is to the error of its last request, if it was requested several times.
func (r *resumed) progress(err error) error {
	if r.requests < 2 {
		return err
	}
	return fmt.Errorf("%d requests to %s in %v, %d of %d bytes fetched: %w", r.requests, r.source().host.Name(),
		time.Since(r.started).Round(time.Second/10), r.at, r.want.Size, err)
}

// Close ends the fetch.
func (r *resumed) Close() error {
	if r.extra != nil {
		r.extra.end()
	}
	err := errors.Join(r.closeBody(), r.closeParts())
	r.turn.end()
	return err
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
