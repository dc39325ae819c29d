package storage

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
				f, err := waiter{limit: testLimit}.open(t.Context(), func(ctx context.Context) (io.ReadCloser, error) {
					return &arrivals{ctx, test.all, test.uninterruptible}, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				start, got := time.Now(), 0
				for err == nil {
					var n int
					n, err = f.Read(make([]byte, enough))
					got += n
				}
				if took := time.Since(start); !errors.Is(err, ErrStalled) || got != test.want || took != test.took {
					t.Errorf("got %d bytes in %v, then %v; want %d in %v, then %v", got, took, err, test.want, test.took, ErrStalled)
				}
			})
		})
	}
}

// The time between two calls of Read does not count: the reader, not the registry, is slow then.
func TestOnlyTimeInReadCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := waiter{limit: testLimit}.open(t.Context(), func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("abc")), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for range 3 {
			if _, err := io.ReadFull(f, make([]byte, 1)); err != nil || f.ctx.Err() != nil {
				t.Fatalf("got error %v, context %v, want none", err, f.ctx.Err())
			}
			time.Sleep(2 * testLimit)
		}
	})
}

// noAnswer blocks until the context ends.
func noAnswer(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A request without an answer is cancelled. The error is ErrStalled, or that of the caller's
// context.
func TestRequestsWithoutAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		request  func(context.Context, waiter) error
		attempts time.Duration
	}{
		"of a blob": {func(ctx context.Context, w waiter) error {
			_, err := w.open(ctx, func(ctx context.Context) (io.ReadCloser, error) { return nil, noAnswer(ctx) })
			return err
		}, 1},
		"of a document": {func(ctx context.Context, w waiter) error { return w.request(ctx, noAnswer) }, attempts},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := test.request(t.Context(), waiter{limit: testLimit})
				if took := time.Since(start); !errors.Is(err, ErrStalled) || took != test.attempts*testLimit {
					t.Errorf("got %v after %v, want %v after %v", err, took, ErrStalled, test.attempts*testLimit)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start = time.Now()
				err = test.request(ctx, waiter{limit: testLimit})
				if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrStalled) ||
					took != time.Minute {
					t.Errorf("cancelled: got %v after %v, want %v after %v", err, took, context.DeadlineExceeded, time.Minute)
				}
			})
		})
	}
}

// A document of an overloaded registry is requested again, after a second and after four; one that is
// refused for another reason is not.
func TestOverloadedRegistry(t *testing.T) {
	for name, test := range map[string]struct {
		answers  []error // the last one is for all later requests
		requests int
		took     time.Duration
		err      error
	}{
		"for a while": {[]error{errOverloaded, errOverloaded, nil}, 3, 5 * time.Second, nil},
		"for ever":    {[]error{errOverloaded}, 3, 5 * time.Second, errOverloaded},
		"refused":     {[]error{errRefused}, 1, 0, errRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, requests := time.Now(), 0
				err := waiter{limit: testLimit}.request(t.Context(), func(context.Context) error {
					requests++
					return test.answers[min(requests, len(test.answers))-1]
				})
				if took := time.Since(start); !errors.Is(err, test.err) || requests != test.requests || took != test.took {
					t.Errorf("got %v after %d requests in %v, want %v after %d in %v", err, requests, took, test.err,
						test.requests, test.took)
				}
			})
		})
	}
}
