package download

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// testLimit is exact: the tests run in synctest bubbles.
const testLimit = 5 * time.Minute

// enough is how many bytes must arrive in testLimit.
const enough = minRate * 300

// arrival is a part of a body: so many bytes arrive so long after the call of Read.
type arrival struct {
	after time.Duration
	bytes int
}

// arrivals is a body. After its last part, Read blocks until the context ends. If it is
// uninterruptible, Read ignores the context while it waits for a part.
type arrivals struct {
	ctx             context.Context
	all             []arrival
	uninterruptible bool
}

func (a *arrivals) Close() error { return nil }

func (a *arrivals) Read(p []byte) (int, error) {
	if len(a.all) == 0 {
		<-a.ctx.Done()
		return 0, a.ctx.Err()
	}
	next := a.all[0]
	a.all = a.all[1:]
	if a.uninterruptible {
		time.Sleep(next.after) // in a bubble
		return next.bytes, nil
	}
	select {
	case <-time.After(next.after): // in a bubble
		return next.bytes, nil
	case <-a.ctx.Done():
		return 0, a.ctx.Err()
	}
}

// bodyOf returns a body that stalls after testLimit.
func bodyOf(ctx context.Context, open func(context.Context) io.ReadCloser) *body {
	ctx, cancel := context.WithCancelCause(ctx)
	host := NewPatience(testLimit, nil).Host("HOST")
	return &body{ctx: ctx, cancel: cancel, limit: testLimit, host: host, body: open(ctx)}
}

// stalled reports whether a connection was lost because it has stalled. The library must not see that: it would ask
// for the rest itself.
func stalled(err error) bool {
	var lost *Lost
	return errors.As(err, &lost) && errors.Is(lost.Cause, ErrStalled) && !errors.Is(err, ErrStalled)
}

// A blob stalls if fewer bytes than minRate allows arrive in the limit. The limit starts again each
// time that enough bytes have arrived.
func TestStallOfABlob(t *testing.T) {
	const near = testLimit - time.Second
	for name, test := range map[string]struct {
		all             []arrival
		uninterruptible bool
		want            int           // bytes
		took            time.Duration // until the stall is detected
	}{
		"nothing":  {nil, false, 0, testLimit},
		"one byte": {[]arrival{{near, 1}}, false, 1, testLimit},
		"enough, several times": {
			[]arrival{{near, enough}, {near, enough}, {near, enough}}, false, 3 * enough, 3*near + testLimit,
		},
		"enough in parts": {
			[]arrival{{near / 2, enough / 2}, {near / 2, enough / 2}, {near, 1}}, false, enough + 1, near + testLimit,
		},
		"a byte too few": {[]arrival{{near, enough - 1}, {near, enough}}, false, enough - 1, testLimit},
		// The timer is then reset with a negative duration.
		"a byte after the limit": {[]arrival{{testLimit + time.Minute, 1}}, true, 1, testLimit + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := bodyOf(t.Context(), func(ctx context.Context) io.ReadCloser {
					return &arrivals{ctx, test.all, test.uninterruptible}
				})
				defer f.Close()
				start, got := time.Now(), 0
				var err error
				for err == nil {
					var n int
					n, err = f.Read(make([]byte, enough))
					got += n
				}
				if took := time.Since(start); !stalled(err) || got != test.want || took != test.took {
					t.Errorf("got %d bytes in %v, then %v; want %d in %v, then %v", got, took, err, test.want, test.took, ErrStalled)
				}
			})
		})
	}
}

// The time between two calls of Read does not count: the reader, not the registry, is slow then.
func TestOnlyTimeInReadCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := bodyOf(t.Context(), func(context.Context) io.ReadCloser { return io.NopCloser(strings.NewReader("abc")) })
		defer f.Close()
		for range 3 {
			if _, err := io.ReadFull(f, make([]byte, 1)); err != nil || f.ctx.Err() != nil {
				t.Fatalf("got error %v, context %v, want none", err, f.ctx.Err())
			}
			time.Sleep(2 * testLimit)
		}
	})
}

// What has arrived is not read any more after the end of a request: a fetch that is interrupted ends where it is.
func TestBodyEndsWithItsContext(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	f := bodyOf(ctx, func(context.Context) io.ReadCloser { return io.NopCloser(strings.NewReader("abc")) })
	defer f.Close()
	if _, err := io.ReadFull(f, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	end()
	if n, err := f.Read(make([]byte, 2)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %d bytes, %v, want none and %v", n, err, context.Canceled)
	}
}
