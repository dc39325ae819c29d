package runtime_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// The progress is that of the pulls that ended, and the staged bytes of those that run.
func TestProgressOfPulls(t *testing.T) {
	w := &fakeNode{}
	seen := make(chan struct{})
	w.server = &fakecri.Server{Pull: func(ctx context.Context, _ string) error {
		if pulls, _ := w.server.Counts(); pulls == 1 {
			return nil
		}
		w.staged.Store(500)
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return ctx.Err()
	}}
	r := newReconciler(t, w, 2)
	options(r).Parallel = 1
	ended := make(chan runtime.Status, 1)
	go func() {
		s, _ := r.Pass(t.Context()) // an error is in s, or shows by its images
		ended <- s
	}()
	want := runtime.Progress{Images: 1, OfImages: 2, Bytes: 1500, OfBytes: 2000}
	waitForStatus(t, w, "one image and half of another", func(s runtime.Status) bool {
		return s.Progress != nil && *s.Progress == want
	})
	close(seen)
	if s := <-ended; !s.Healthy() {
		t.Errorf("got %v, want a healthy node", s.Errors)
	}
}

// A pull that is tried again does not wait until the status is published next.
func TestRetryIsIndependentOfPublishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newFlakyRegistry(t, 1, func(_ pinset.Image, attempt int) error {
			if attempt == 1 {
				return errors.New("connection refused")
			}
			return nil
		})
		options(r).PublishInterval = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if s, err := r.Pass(ctx); err != nil || !s.Healthy() {
			t.Errorf("got %v, %v, want a healthy node", s.Errors, err)
		}
	})
}

// Once a pass has pulled an image that failed before, it does more than to repeat failures.
func TestPassThatPullsAfterFailures(t *testing.T) {
	var r *runtime.Reconciler
	var g *flakyRegistry
	var during runtime.Status
	r, g = newFlakyRegistry(t, 2, func(_ pinset.Image, attempt int) error {
		if attempt == 1 {
			return errors.New("connection refused")
		}
		g.fakeNode.mu.Lock()
		defer g.fakeNode.mu.Unlock()
		during = g.published[len(g.published)-1]
		return nil
	})
	options(r).Retry.Tries = 1
	if s := runPass(t, r); !s.Degraded() {
		t.Fatalf("got %s, want a degraded node", s.Summary())
	}
	if s := runPass(t, r); !s.Healthy() || during.Degraded() {
		t.Errorf("got %s, and %s before the second pull, want a node that is not degraded", s.Summary(), during.Summary())
	}
}

// Another program takes space before the pulls: those that do not fit beside others wait for them.
func TestPullsWaitForSpace(t *testing.T) {
	var running, most atomic.Int32
	w := &fakeNode{}
	w.server = &fakecri.Server{Pull: func(context.Context, string) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		return nil
	}}
	r := newReconciler(t, w, 3)
	on(r, "pinned and reloaded", func(event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.space.Free = 3000 // an image is estimated to take 2000 bytes
	})
	if s := runPass(t, r); !s.Healthy() || most.Load() != 1 {
		t.Errorf("got %v, %d pulls at a time, want a healthy node, and 1", s.Errors, most.Load())
	}
}
