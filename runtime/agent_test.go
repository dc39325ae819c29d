package runtime_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// countingService counts the notifications of a service manager.
type countingService struct{ ready, watchdog atomic.Int32 }

func (m *countingService) Ready()                          { m.ready.Add(1) }
func (m *countingService) Watchdog()                       { m.watchdog.Add(1) }
func (m *countingService) SetStatus(string)                {}
func (m *countingService) WatchdogInterval() time.Duration { return 10 * time.Millisecond }

// runAgent runs an agent until the end of the test.
func runAgent(t *testing.T, r *runtime.Reconciler, changes <-chan struct{}) *countingService {
	t.Helper()
	m := &countingService{}
	a := &runtime.Agent{
		Reconciler: r, Changes: changes, Service: m, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Interval: time.Hour, Debounce: time.Millisecond,
	}
	ctx, cancel := context.WithCancel(t.Context())
	var end sync.WaitGroup
	end.Go(func() { a.Run(ctx) })
	t.Cleanup(func() { cancel(); end.Wait() })
	return m
}

// waitForStatus waits until the last published status fulfills is.
func waitForStatus(t *testing.T, node *fakeNode, what string, is func(runtime.Status) bool) {
	t.Helper()
	for {
		node.mu.Lock()
		n := len(node.published)
		ok := n > 0 && is(node.published[n-1])
		node.mu.Unlock()
		if ok {
			return
		}
		fixtures.Receive(t, "status: "+what, node.news)
	}
}

// An event without a change of the sets, such as a touched file, does not cancel the pulls.
func TestUnchangedSetsDoNotCancelAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		finish := make(chan struct{})
		node.server = &fakecri.Server{Pull: func(ctx context.Context, _ string) error {
			select {
			case <-finish:
				return nil
			case <-ctx.Done():
				t.Error("got a cancelled pull, want it to continue")
				return ctx.Err()
			}
		}}
		changes := make(chan struct{})
		m := runAgent(t, newReconciler(t, node, 1), changes)
		waitForStatus(t, node, "a running pull", func(s runtime.Status) bool { return s.Progress != nil })
		for range 5 {
			changes <- struct{}{}
			synctest.Wait()
		}
		close(finish)
		waitForStatus(t, node, "a healthy node", runtime.Status.Healthy)
		if m.ready.Load() != 1 || m.watchdog.Load() == 0 {
			t.Errorf("got %d calls of Ready, %d of Watchdog, want 1, and at least 1", m.ready.Load(), m.watchdog.Load())
		}
	})
}

// If the sets change just before a pass ends, the next pass starts at once, not after the interval.
func TestChangeAtTheEndOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		node.server = &fakecri.Server{Pinned: node.isPinned}
		r := newReconciler(t, node, 1)
		one := node.sets[0].Images[0]
		two := pinset.Image{Repository: "quay.io/x/two", Digest: digest.FromString("two")}
		var sets atomic.Pointer[pinset.Set]
		sets.Store(&pinset.Set{Name: "s", Images: []pinset.Image{one}})
		of(r).sets = func() ([]pinset.Set, error) { return []pinset.Set{*sets.Load()}, nil }
		changes := make(chan struct{})
		changed := false
		of(r).publish = func(s runtime.Status) error {
			if s.Healthy() && !changed { // the last thing that a pass does
				changed = true
				sets.Store(&pinset.Set{Name: "s", Images: []pinset.Image{two}})
				changes <- struct{}{}
			}
			return node.publish(s)
		}
		runAgent(t, r, changes)
		waitForStatus(t, node, "the image of the new set is pinned", func(s runtime.Status) bool {
			return s.Healthy() && s.Images[0].Name == two.String()
		})
	})
}

// The sets change while a pass pulls: its pulls are cancelled.
func TestChangeCancelsAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeNode{}
		one := pinset.Image{Repository: "quay.io/x/one", Digest: digest.FromString("one")}
		two := pinset.Image{Repository: "quay.io/x/two", Digest: digest.FromString("two")}
		w.server = &fakecri.Server{Pull: func(ctx context.Context, name string) error {
			if name == two.String() {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		r := newReconciler(t, w, 0)
		var sets atomic.Pointer[pinset.Set]
		sets.Store(&pinset.Set{Name: "s", Images: []pinset.Image{one}})
		of(r).sets = func() ([]pinset.Set, error) { return []pinset.Set{*sets.Load()}, nil }
		changes := make(chan struct{})
		runAgent(t, r, changes)
		waitForStatus(t, w, "it pulls", func(s runtime.Status) bool { return s.Progress != nil })
		sets.Store(&pinset.Set{Name: "s", Images: []pinset.Image{two}})
		changes <- struct{}{}
		waitForStatus(t, w, "the other image is pinned", func(s runtime.Status) bool {
			return s.Healthy() && s.Images[0].Name == two.String()
		})
	})
}
