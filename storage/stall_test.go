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

// In all tests here the clock is exact: nothing takes time but waiting.
const testLimit = 5 * time.Minute

// enough bytes come in testLimit not to be a stall.
const enough = minRate * 300

// arrival of bytes, that long after they were waited for.
type arrival struct {
	after time.Duration
	bytes int
}

// arrivals is a body whose bytes come like that, and behind them none. A deaf one does not
// hear that it is called off.
type arrivals struct {
	ctx  context.Context
	all  []arrival
	deaf bool
}

func (a *arrivals) Close() error { return nil }

func (a *arrivals) Read(p []byte) (int, error) {
	if len(a.all) == 0 {
		<-a.ctx.Done()
		return 0, a.ctx.Err()
	}
	next := a.all[0]
	a.all = a.all[1:]
	if a.deaf {
		time.Sleep(next.after)
		return next.bytes, nil
	}
	select {
	case <-time.After(next.after):
		return next.bytes, nil
	case <-a.ctx.Done():
		return 0, a.ctx.Err()
	}
}

// A blob stalls when less comes in the time than slowest; each time that enough has come,
// the time begins anew.
func TestStallOfAFlow(t *testing.T) {
	const near = testLimit - time.Second
	for name, test := range map[string]struct {
		all  []arrival
		deaf bool
		got  int
		took time.Duration // until it is found
	}{
		"nothing comes": {nil, false, 0, testLimit},
		"one byte":      {[]arrival{{near, 1}}, false, 1, testLimit},
		"enough, again and again": {
			[]arrival{{near, enough}, {near, enough}, {near, enough}}, false, 3 * enough, 3*near + testLimit,
		},
		"enough in parts": {
			[]arrival{{near / 2, enough / 2}, {near / 2, enough / 2}, {near, 1}}, false, enough + 1, near + testLimit,
		},
		"a byte too few": {[]arrival{{near, enough - 1}, {near, enough}}, false, enough - 1, testLimit},
		// What came too late leaves less than no time for the rest.
		"a byte after the time": {[]arrival{{testLimit + time.Minute, 1}}, true, 1, testLimit + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, err := waiter{limit: testLimit}.open(t.Context(), func(ctx context.Context) (io.ReadCloser, error) {
					return &arrivals{ctx, test.all, test.deaf}, nil
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
				if took := time.Since(start); !errors.Is(err, ErrStalled) || got != test.got || took != test.took {
					t.Errorf("%d bytes in %v, then %v; not %d in %v", got, took, err, test.got, test.took)
				}
			})
		})
	}
}

// Who is busy with what has come does not wait: that is no stall of the registry.
func TestOnlyWaitingCounts(t *testing.T) {
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
				t.Fatal(err, f.ctx.Err())
			}
			time.Sleep(2 * testLimit)
		}
	})
}

// never answers until it is called off.
func never(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// An answer that does not come is called off, and who has called it off is told apart.
func TestAnswersThatDoNotCome(t *testing.T) {
	for name, test := range map[string]struct {
		ask      func(context.Context, waiter) error
		attempts time.Duration
	}{
		"of a blob": {func(ctx context.Context, w waiter) error {
			_, err := w.open(ctx, func(ctx context.Context) (io.ReadCloser, error) { return nil, never(ctx) })
			return err
		}, 1},
		"of a document": {func(ctx context.Context, w waiter) error { return w.ask(ctx, never) }, attempts},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := test.ask(t.Context(), waiter{limit: testLimit})
				if took := time.Since(start); !errors.Is(err, ErrStalled) || took != test.attempts*testLimit {
					t.Errorf("after %v: %v", took, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start = time.Now()
				err = test.ask(ctx, waiter{limit: testLimit})
				if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrStalled) ||
					took != time.Minute {
					t.Errorf("called off, after %v: %v", took, err)
				}
			})
		})
	}
}
