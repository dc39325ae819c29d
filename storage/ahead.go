package storage

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/tail"
)

const (
	// parallelFetches is the limit of connections for blobs. oc-mirror uses up to 80, skopeo and podman 6
	// for one image at a time.
	parallelFetches = 32
	// minAhead is the smallest part of a blob that is fetched by a connection of its own, in bytes: at
	// 50 Mbit/s it takes 0.7 s, some times as long as to open the connection.
	minAhead = 4 << 20
)

// lanes counts connections for blobs. When no other blob waits for one, large blobs use those that are left:
// then the rate of one connection is the limit. nil gives none away.
type lanes struct {
	mu sync.Mutex
	// waiting blobs have no connection yet, busy connections are in use.
	waiting, busy int
}

func (l *lanes) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting, l.busy = l.waiting-1, l.busy+1
}

// extra reports whether one more connection may be used.
func (l *lanes) extra() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting > 0 || l.busy >= parallelFetches {
		return false
	}
	l.busy++
	return true
}

func (l *lanes) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
}

// rangeSupport says whether a registry has ranges. It is asked once: with a registry that has none, the
// library reads all that is before the range.
type rangeSupport struct {
	once sync.Once
	has  atomic.Bool
}

// ask takes no longer than a registry may take to answer. An error means that it has no ranges.
func (s *rangeSupport) ask(ctx context.Context, src *imageSource, blob imgtypes.BlobInfo) bool {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, src.wait.limit)
		defer cancel()
		s.has.Store(tail.Ranged(ctx, src.ImageSource, blob) == nil)
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

// split leaves the second half of what has yet to be read to another connection, if there is one.
func (r *resumed) split() {
	left := r.end - r.at
	if left < 2*minAhead || r.src.remote == nil || r.at < r.checked+minResumed || !r.lanes.extra() {
		return
	}
	r.checked = r.at
	if !r.src.remote.ranges.ask(r.ctx, r.src, r.want) {
		r.lanes.end()
		return
	}
	file, err := atomicfile.Unnamed(r.tmp)
	if err != nil { // without it, this connection reads all
		r.lanes.end()
		return
	}
	from := r.end - left/2
	ctx, cancel := context.WithCancel(r.ctx)
	a := &ahead{file: file, from: from, have: from, cancel: cancel, part: &resumed{
		ctx: ctx, src: r.src, want: r.want, at: from, end: r.end, next: r.next, tmp: r.tmp, lanes: r.lanes,
		counted: from, checked: from, onlyRange: true,
	}}
	a.progress = sync.NewCond(&a.mu)
	r.end, r.next = from, a
	go a.fetch()
}

// fetch fetches the part.
func (a *ahead) fetch() {
	err := a.fill()
	_ = a.part.closeBody() // nothing was written to it
	a.part.lanes.end()
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

// close ends the fetch, and those of the parts behind it.
func (a *ahead) close() error {
	a.cancel()
	a.mu.Lock()
	for a.err == nil {
		a.progress.Wait()
	}
	a.mu.Unlock()
	err := a.file.Close()
	if a.part.next != nil {
		err = errors.Join(err, a.part.next.close())
	}
	return err
}

// follow reads what another connection has fetched. If that failed, this one continues, without others.
func (r *resumed) follow(p []byte) (int, error) {
	a := r.next
	n, err := a.readAt(p, r.at)
	if n > 0 {
		r.save(p[:n])
		r.at, r.end = r.at+int64(n), r.at+int64(n)
		return n, nil
	}
	r.next = a.part.next
	if !errors.Is(err, io.EOF) {
		r.end = a.part.end
		r.src.remote.ranges.has.Store(false)
	}
	a.cancel()
	return 0, a.file.Close()
}
