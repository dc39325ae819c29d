package storage

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.podman.io/image/v5/pkg/blobinfocache/none"
	imgtypes "go.podman.io/image/v5/types"
	"golang.org/x/sync/semaphore"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/download"
)

const (
	// largePart and smallPart limit the size of a part of a blob that has a connection of its own, in bytes. At
	// 50 Mbit/s they take 0.7 and 0.2 s.
	largePart, smallPart = 4 << 20, 1 << 20
	// maxParts is how many parts of a blob are fetched before they are read. It limits the space that they take, and
	// what is fetched twice if the build is interrupted.
	maxParts = 8
)

// rangeSupport says whether a registry has ranges. It is asked once: with a registry that has none, the
// library reads all that is before the range.
type rangeSupport struct {
	once       sync.Once
	asked, has atomic.Bool
}

// ask takes no longer than a registry may take to answer. An error means that it has no ranges.
func (s *rangeSupport) ask(
	ctx context.Context, limit time.Duration, src imgtypes.ImageSource, blob imgtypes.BlobInfo,
) bool {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx, answer := download.WithAnswer(download.WithRange(ctx, 0, 1))
		if body, _, err := src.GetBlob(ctx, blob, none.NoCache); err == nil {
			_ = body.Close() // nothing was written to it
			s.has.Store(answer.Ranged)
		}
		s.asked.Store(true)
	})
	return s.has.Load()
}

// ahead is a later part of a blob. It is fetched into a file while what is before it is read.
type ahead struct {
	part   *resumed
	file   *os.File
	from   int64
	cancel context.CancelFunc

	mu       sync.Mutex
	progress *sync.Cond
	have     int64 // the offset in the blob up to which it was fetched
	err      error // why no more is fetched; io.EOF at the end of the part
}

// partSize returns the size of the next part of a blob: an eighth of what is left, so that the last ones are small.
func partSize(left int64) int64 {
	size := min(max(left/maxParts, smallPart), largePart)
	if left < size+smallPart {
		return left
	}
	return size
}

// spread fetches the next parts of the blob by other connections, as soon as it is its turn to have them, unless one is
// enough. The first request is not delayed by asking for ranges.
func (r *resumed) spread() error {
	from := r.source()
	if r.extra == nil || from == nil || r.body == nil && r.requests == 0 && !from.ranges.asked.Load() {
		return nil
	}
	if r.alone || from.host.Fast() {
		r.extra.giveBack()
		return nil
	}
	for len(r.next) < maxParts {
		offset := r.nextPart()
		if offset >= r.want.Size {
			r.extra.giveBack()
			return nil
		}
		if !r.extra.take() {
			return nil
		}
		if fetched, err := r.fetchPart(offset); !fetched { // this connection reads all
			r.extra.all.Release(1)
			r.alone = true
			return err
		}
	}
	return nil
}

// nextPart returns the offset of the next part that another connection may fetch, or the size of the blob.
func (r *resumed) nextPart() int64 {
	left := r.want.Size - r.at
	switch last := len(r.next) - 1; {
	case last >= 0:
		return r.next[last].part.end
	case r.end < r.want.Size:
		return r.end
	case left < largePart:
		return r.want.Size
	default:
		return r.at + partSize(left)
	}
}

// fetchPart begins to fetch the part at an offset. Without ranges it does nothing and returns false.
func (r *resumed) fetchPart(from int64) (bool, error) {
	source := r.source()
	if !source.ranges.ask(r.ctx, r.src.from.patience.Stall, source.src, r.want) {
		return false, nil
	}
	file, err := atomicfile.Unnamed(r.tmp)
	if err != nil {
		return false, err
	}
	to := from + partSize(r.want.Size-from)
	ctx, cancel := context.WithCancel(r.ctx)
	a := &ahead{file: file, from: from, have: from, cancel: cancel, part: &resumed{
		ctx: ctx, src: r.src, want: r.want, at: from, end: to, only: source,
	}}
	a.progress = sync.NewCond(&a.mu)
	r.end, r.next = min(r.end, from), append(r.next, a)
	go a.fetch(r.extra.all)
	return true, nil
}

// fetch fetches the part by a connection, which it releases.
func (a *ahead) fetch(connections *semaphore.Weighted) {
	err := a.fill()
	_ = a.part.closeBody() // nothing was written to it
	connections.Release(1)
	a.advance(0, err)
}

func (a *ahead) fill() error {
	buffer := make([]byte, 64<<10)
	for {
		at := a.part.at
		n, err := a.part.Read(buffer)
		if _, failed := a.file.WriteAt(buffer[:n], at-a.from); failed != nil {
			return failed
		}
		a.advance(n, nil)
		if err != nil {
			return err
		}
	}
}

func (a *ahead) advance(n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.have, a.err = a.have+int64(n), err
	a.progress.Broadcast()
}

// readAt reads from an offset of the blob, and waits for what is there.
func (a *ahead) readAt(p []byte, at int64) (int, error) {
	a.mu.Lock()
	for a.have <= at && a.err == nil {
		a.progress.Wait()
	}
	have, err := a.have, a.err
	a.mu.Unlock()
	if have <= at {
		return 0, err
	}
	return a.file.ReadAt(p[:min(int64(len(p)), have-at)], at-a.from)
}

// close ends the fetch.
func (a *ahead) close() error {
	a.cancel()
	a.mu.Lock()
	for a.err == nil {
		a.progress.Wait()
	}
	a.mu.Unlock()
	return a.file.Close()
}

// follow reads what another connection has fetched. If that failed, this one reads the rest.
func (r *resumed) follow(p []byte) (int, error) {
	a := r.next[0]
	n, err := a.readAt(p, r.at)
	if n > 0 {
		r.save(p[:n])
		r.at, r.end = r.at+int64(n), r.at+int64(n)
		return n, nil
	}
	if errors.Is(err, io.EOF) && r.at == a.part.end {
		r.next = r.next[1:]
		return 0, a.close()
	}
	if from := r.source(); from != nil {
		from.ranges.has.Store(false)
	}
	r.end, r.alone = r.want.Size, true
	return 0, r.closeParts()
}

func (r *resumed) closeParts() (err error) {
	for _, a := range r.next {
		a.cancel()
	}
	for _, a := range r.next {
		err = errors.Join(err, a.close())
	}
	r.next = nil
	return err
}
