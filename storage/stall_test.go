package storage

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// Who is busy with what has come does not wait: that is no stall of the registry.
func TestOnlyWaitingCounts(t *testing.T) {
	const limit = 100 * time.Millisecond
	body := func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("abc")), nil
	}
	f, err := waiter{limit: limit}.open(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 3 {
		if _, err := io.ReadFull(f, make([]byte, 1)); err != nil || f.ctx.Err() != nil {
			t.Fatal(err, f.ctx.Err())
		}
		time.Sleep(limit)
	}
}

// What stalls is called off, and who has called it off is told apart.
func TestStallOfAFlow(t *testing.T) {
	never := func(ctx context.Context) (io.ReadCloser, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := (waiter{limit: 10 * time.Millisecond}).open(t.Context(), never); !errors.Is(err, ErrStalled) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := (waiter{limit: time.Minute}).open(ctx, never); !errors.Is(err, context.Canceled) || errors.Is(err, ErrStalled) {
		t.Error(err)
	}
}
