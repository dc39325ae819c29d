package runtime_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// countingService is a service manager that counts.
type countingService struct{ ready, watchdog atomic.Int32 }

func (m *countingService) Ready()                          { m.ready.Add(1) }
func (m *countingService) Watchdog()                       { m.watchdog.Add(1) }
func (m *countingService) SetStatus(string)                {}
func (m *countingService) WatchdogInterval() time.Duration { return 10 * time.Millisecond }

// runAgent runs an agent until the test ends.
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

// waitForStatus waits for a published status that is as wanted.
func waitForStatus(t *testing.T, w *fakeNode, what string, is func(runtime.Status) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		n := len(w.published)
		ok := n > 0 && is(w.published[n-1])
		w.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for long: %s", what)
		}
	}
}

// Somebody touches files in the folder of sets: the pulls go on.
func TestUnchangedSetsDoNotCancelAPass(t *testing.T) {
	w := &fakeNode{}
	goOn := make(chan struct{})
	w.server = &fakecri.Server{Pull: func(ctx context.Context, _ string) error {
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			t.Error("the pull was called off")
			return ctx.Err()
		}
	}}
	changes := make(chan struct{})
	m := runAgent(t, newReconciler(t, w, 1), changes)
	waitForStatus(t, w, "it pulls", func(s runtime.Status) bool { return s.Progress != nil })
	for range 5 {
		changes <- struct{}{}
		time.Sleep(5 * time.Millisecond)
	}
	close(goOn)
	waitForStatus(t, w, "it ends", runtime.Status.Healthy)
	if m.ready.Load() != 1 || m.watchdog.Load() == 0 {
		t.Errorf("got ready %d times, want 1; got the watchdog %d times, want some", m.ready.Load(), m.watchdog.Load())
	}
}

// The sets change at the very moment in which a pass ends: another follows at
// once, not with the next interval.
func TestChangeAtTheEndOfAPass(t *testing.T) {
	w := &fakeNode{}
	w.server = &fakecri.Server{Pinned: w.isPinned}
	r := newReconciler(t, w, 1)
	one := w.sets[0].Images[0]
	two := pinset.Image{Repository: "quay.io/x/two", Digest: digest.FromString("two")}
	var sets atomic.Pointer[pinset.Set]
	sets.Store(&pinset.Set{Name: "s", Images: []pinset.Image{one}})
	r.Sets = func() ([]pinset.Set, error) { return []pinset.Set{*sets.Load()}, nil }
	changes := make(chan struct{})
	told := false
	r.Publish = func(s runtime.Status) error {
		if s.Healthy() && !told { // the last thing that a pass does
			told = true
			sets.Store(&pinset.Set{Name: "s", Images: []pinset.Image{two}})
			changes <- struct{}{}
		}
		return w.publish(s)
	}
	runAgent(t, r, changes)
	waitForStatus(t, w, "the other image is pinned", func(s runtime.Status) bool {
		return s.Healthy() && s.Images[0].Name == two.String()
	})
}
