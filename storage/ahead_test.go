package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/semaphore"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/pinset"
)

// rangedBlob is a registry's blob of 24 MiB.
type rangedBlob struct {
	content []byte

	mu      sync.Mutex
	ignored bool  // ranges are
	hangs   bool  // the registry does, when it is asked for its ranges
	refused bool  // ranges are, but not the first
	cut     int64 // of the second range, behind which the connection is lost; 0 for none
	asked   []string
}

func (b *rangedBlob) answer(w http.ResponseWriter, r *http.Request) bool {
	if !strings.Contains(r.URL.Path, "/blobs/") {
		return false
	}
	b.mu.Lock()
	b.asked = append(b.asked, r.Header.Get("Range"))
	asked, cut := len(b.asked), b.cut
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	switch {
	case b.hangs && asked == 2:
		<-r.Context().Done()
		return true
	case b.ignored:
		r.Header.Del("Range")
	case b.refused && asked > 2 && r.Header.Get("Range") != "":
		w.WriteHeader(http.StatusBadRequest)
		return true
	case cut > 0 && asked == 3:
		var from, to int64
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(b.content)))
		w.Header().Set("Content-Length", fmt.Sprint(to+1-from))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(b.content[from : from+cut])
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.content))
	return true
}

// requests returns the ranges that were asked for so far.
func (b *rangedBlob) requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// newRangedBlob serves the blob, and returns how to open it. The tests are about an image of the same
// repository. No connection is fast.
func newRangedBlob(t *testing.T, stall time.Duration) (*rangedBlob, func(fetching) io.ReadCloser) {
	return newBlobOfARate(t, stall, math.MaxInt64)
}

// newBlobOfARate is newRangedBlob, for which so many bytes per second of a connection are fast.
func newBlobOfARate(t *testing.T, stall time.Duration, fast int64) (*rangedBlob, func(fetching) io.ReadCloser) {
	t.Helper()
	b := &rangedBlob{content: make([]byte, 24<<20)}
	_, _ = rand.NewChaCha8([32]byte{}).Read(b.content) // never fails
	var access fixtures.Access
	registry, err := sample.Serve(access.Wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	pin, err := registry.PushStack(t.Context(), "ahead", 100)
	if err != nil {
		t.Fatal(err)
	}
	access.Fault(b.answer)
	img, err := pinset.ParseImage(pin)
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(Access{Insecure: []string{registry.Host}, StallTimeout: stall}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	client.remote.patience.Host(registry.Host).SetFast(fast)
	l := &pinset.LockedLayer{Digest: digest.FromBytes(b.content), Size: int64(len(b.content))}
	return b, func(how fetching) io.ReadCloser {
		how.tmp = t.TempDir()
		r, err := client.openLayer(t.Context(), img, l, how)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// With connections to spare, parts of a large blob are fetched at the same time, each byte once. If a
// part cannot be fetched so, the first connection fetches it. Without ranges there is one request, and
// one that asks for them.
func TestLargeBlobUsesFreeConnections(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*rangedBlob)
		busy   int64 // connections
		// least and most are how many requests there may be.
		least, most int
		stall       time.Duration
	}{
		"ranges":              {func(*rangedBlob) {}, 0, 10, 26, 0},
		"one free connection": {func(*rangedBlob) {}, parallelFetches - 2, 10, 26, 0},
		"no free connection":  {func(*rangedBlob) {}, parallelFetches - 1, 1, 1, 0},
		"no ranges":           {func(b *rangedBlob) { b.ignored = true }, 0, 2, 2, 0},
		"hangs":               {func(b *rangedBlob) { b.hangs = true }, 0, 2, 2, 2 * time.Second},
		"refused later":       {func(b *rangedBlob) { b.refused = true }, 0, 4, parallelFetches, 0},
		"lost":                {func(b *rangedBlob) { b.cut = 1 << 20 }, 0, 11, 27, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, open := newRangedBlob(t, test.stall)
			test.change(b)
			connections := semaphore.NewWeighted(parallelFetches - test.busy)
			r := open(fetching{connections: connections})
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, b.content) {
				t.Errorf("got %d bytes and %v, want the %d of the blob", len(got), err, len(b.content))
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if n := len(b.asked); n < test.least || n > test.most {
				t.Errorf("got %d requests, want %d to %d: %q", n, test.least, test.most, b.asked)
			}
			ranges := slices.Clone(b.asked)
			slices.Sort(ranges)
			if different := len(slices.Compact(ranges)); !b.refused && different != len(b.asked) {
				t.Errorf("got the ranges %q, want each once", b.asked)
			}
			if !connections.TryAcquire(parallelFetches - test.busy) {
				t.Error("connections are in use after the end, want none")
			}
		})
	}
}

// A blob whose connection brings it as fast as it is packed has only that one, as soon as that is known: parts are
// files that are written and read. A bug was that on a fast link all large layers came in parts.
func TestFastConnectionIsEnough(t *testing.T) {
	for name, test := range map[string]struct {
		fast  int64 // bytes per second
		parts bool
	}{
		"each connection is fast": {1, false},
		"none is":                 {math.MaxInt64, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, open := newBlobOfARate(t, 0, test.fast)
			for range 2 { // the first one shows how fast it is
				b.asked = nil
				r := open(fetching{connections: semaphore.NewWeighted(parallelFetches)})
				got, err := io.ReadAll(r)
				if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, b.content) {
					t.Fatalf("got %d bytes and %v, want the %d of the blob", len(got), err, len(b.content))
				}
			}
			if got := len(b.asked) > 1; got != test.parts {
				t.Errorf("got %d requests, want several: %v", len(b.asked), test.parts)
			}
		})
	}
}

// A fetch by several connections that is interrupted leaves the beginning of the blob, and the next one
// continues behind it.
func TestInterruptedRangesResume(t *testing.T) {
	b, open := newRangedBlob(t, 0)
	blobs, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	layer := &pinset.LockedLayer{Digest: digest.FromBytes(b.content), Size: int64(len(b.content))}
	read := 15 << 20
	part, _, err := openPartial(blobs, layer)
	if err != nil {
		t.Fatal(err)
	}
	r := open(fetching{part: part, connections: semaphore.NewWeighted(parallelFetches)})
	if _, err := io.ReadFull(r, make([]byte, read)); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if size, err := part.Size(); err != nil || size != int64(read) || len(b.requests()) < 3 {
		t.Errorf("got %d bytes of the first fetch and %v, in %d requests; want %d in several", size, err, len(b.requests()), read)
	}
	b, open = newRangedBlob(t, 0) // the first may yet be asked for parts that nobody reads
	r = open(fetching{part: part})
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, b.content) {
		t.Errorf("got %d bytes and %v, want the %d of the blob", len(got), err, len(b.content))
	}
	if want := []string{fmt.Sprintf("bytes=%d-%d", read, len(b.content)-1)}; !slices.Equal(b.asked, want) {
		t.Errorf("got requests for %q, want %q", b.asked, want)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Few parts are fetched before they are read, whatever the number of free connections: they take space, and are fetched
// again if the build is interrupted.
func TestPartsAheadAreLimited(t *testing.T) {
	_, open := newRangedBlob(t, 0)
	r := open(fetching{connections: semaphore.NewWeighted(1000)})
	if _, err := io.ReadFull(r, make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	blob := r.(*sourced).ReadCloser.(*counter).ReadCloser.(*verifier).src.(*resumed)
	if got := len(blob.next); got != maxParts {
		t.Errorf("got %d parts ahead, want %d", got, maxParts)
	}
	for _, a := range blob.next {
		if size := a.part.end - a.from; size > largePart {
			t.Errorf("got a part of %d bytes, want %d at most", size, largePart)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
