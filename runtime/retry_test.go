package runtime_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// flakyRegistry lets some pulls fail, and records the time of each attempt.
type flakyRegistry struct {
	*recordingNode
	// fail returns the error of an attempt, counted from 1; nil if it succeeds.
	fail func(img pinset.Image, attempt int) error

	mu    sync.Mutex
	tried map[string][]time.Time
	order []string
}

func (g *flakyRegistry) Pull(ctx context.Context, img pinset.Image) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := img.String()
	g.tried[name] = append(g.tried[name], time.Now())
	g.order = append(g.order, name)
	if err := g.fail(img, len(g.tried[name])); err != nil {
		return err
	}
	return g.recordingNode.Pull(ctx, img)
}

// newFlakyRegistry makes a node with n images to pull from such a registry, one at a time.
func newFlakyRegistry(
	t *testing.T, n int, fail func(img pinset.Image, attempt int) error,
) (*runtime.Reconciler, *flakyRegistry) {
	t.Helper()
	r, node := newRecordingNode(t, n)
	g := &flakyRegistry{recordingNode: node, fail: fail, tried: map[string][]time.Time{}}
	r.Images = g
	return r, g
}

// A pull with a transient error is tried Retry.Tries times, one with another error only once.
func TestPullsAreRetriedByClass(t *testing.T) {
	for text, want := range map[string]struct {
		class runtime.Class
		tries int
	}{
		"dial tcp 10.0.0.1:5000: connection refused":               {runtime.Network, 3},
		"received unexpected HTTP status: 503 Service Unavailable": {runtime.Network, 3},
		"unexpected end of JSON input":                             {runtime.Other, 3},
		"unauthorized: authentication required":                    {runtime.Auth, 1},
		"manifest unknown":                                         {runtime.NotFound, 1},
		"Source image rejected: A signature was required":          {runtime.Policy, 1},
		"write /var/tmp/x: no space left on device":                {runtime.Space, 1},
	} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, g := newFlakyRegistry(t, 1, func(pinset.Image, int) error { return status.Error(codes.Unknown, text) })
				options(r).Retry.Tries = 3
				s := runPass(t, r)
				if tries := len(g.order); tries != want.tries {
					t.Errorf("got %d attempts, want %d", tries, want.tries)
				}
				if got := s.Images[0]; got.ErrorClass != want.class || got.Error != text || !s.Degraded() {
					t.Errorf("got the status %+v, want an error of class %s: %s", got, want.class, text)
				}
			})
		})
	}
}

// The wait doubles up to Retry.Longest; a random part of up to a half is subtracted.
func TestPullBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		r, g := newFlakyRegistry(t, 1, func(_ pinset.Image, attempt int) error {
			if attempt < 5 {
				return refused
			}
			return nil
		})
		options(r).Retry = runtime.Retry{First: 80 * time.Millisecond, Longest: 200 * time.Millisecond, Tries: 5}
		var waits []time.Duration
		on(r, "pull failed", func(e event) {
			if e.attr("class") != runtime.Network || e.attr("error") != refused.Error() {
				t.Errorf("got the fault %v: %v, want one of the network: %v", e.attr("class"), e.attr("error"), refused)
			}
			waits = append(waits, e.attr("again").(time.Duration))
		})
		if s := runPass(t, r); !s.Healthy() {
			t.Errorf("got %v, want a healthy node after the fifth attempt", s.Errors)
		}
		const ms = time.Millisecond
		longest := []time.Duration{80 * ms, 160 * ms, 200 * ms, 200 * ms}
		if len(waits) != len(longest) {
			t.Fatalf("got %v, want %d waits", waits, len(longest))
		}
		tried := g.tried[g.order[0]]
		for i, all := range longest {
			if waits[i] < all/2 || waits[i] > all {
				t.Errorf("wait %d: got %s, want between %s and %s", i+1, waits[i], all/2, all)
			}
			if waited := tried[i+1].Sub(tried[i]); waited < waits[i] {
				t.Errorf("wait %d: got attempt %d after %s, want at least %s", i+1, i+2, waited, waits[i])
			}
		}
	})
}

// After the last attempt, the hook Failed gets no time of a next one.
func TestNoWaitAfterTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newFlakyRegistry(t, 1, func(pinset.Image, int) error { return errors.New("connection refused") })
		options(r).Retry.Tries = 2
		var waits []time.Duration
		on(r, "pull failed", func(e event) { waits = append(waits, e.attr("again").(time.Duration)) })
		runPass(t, r)
		if len(waits) != 2 || waits[0] == 0 || waits[1] != 0 {
			t.Errorf("got the waits %v, want one, and then 0", waits)
		}
	})
}

// While one image waits for its next attempt, the others are pulled.
func TestRetryDoesNotDelayOtherPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first string
		r, g := newFlakyRegistry(t, 3, func(img pinset.Image, attempt int) error {
			if img.String() == first && attempt == 1 {
				return errors.New("connection refused")
			}
			return nil
		})
		images := g.sets[0].Images
		first = images[0].String()
		options(r).Retry.First = 300 * time.Millisecond
		if s := runPass(t, r); !s.Healthy() {
			t.Errorf("got %v, want a healthy node", s.Errors)
		}
		if want := []string{first, images[1].String(), images[2].String(), first}; !slices.Equal(g.order, want) {
			t.Errorf("got the attempts %q, want %q", g.order, want)
		}
	})
}

// A pass began, published a status without the errors of the last one, and the node was not
// degraded while it tried the same images again: the conditions changed with every attempt.
func TestRetriesStayDegraded(t *testing.T) {
	r, g := newFlakyRegistry(t, 2, func(pinset.Image, int) error { return errors.New("connection refused") })
	options(r).Retry.Tries = 1
	runPass(t, r)
	first := len(g.published)
	runPass(t, r)
	for i, s := range g.published[first:] {
		if !s.Degraded() {
			t.Errorf("status %d of the second pass: got %+v, want a degraded node", i+1, s.Conditions)
		}
	}
}

// restart makes the reconciler of a new process, which continues from the last published status.
func restart(r *runtime.Reconciler, published runtime.Status) *runtime.Reconciler {
	next := &runtime.Reconciler{Runtime: r.Runtime, Images: r.Images, Pins: r.Pins, Node: r.Node}
	next.Continue(published)
	return next
}

// crashingPins is a drop-in whose writer may crash before it reloads CRI-O.
type crashingPins struct {
	*recordingNode
	// crash, unless it is nil, is called between the write and the reload.
	crash func()
	// refuse means that CRI-O is not reloaded, because of a conflict in its configuration.
	refuse bool
	// reloadDue is the ReloadDue of the last published status at each write.
	reloadDue []bool
}

func (p *crashingPins) Apply(ctx context.Context, images []pinset.Image) (bool, error) {
	p.mu.Lock()
	n := len(p.published)
	p.reloadDue = append(p.reloadDue, n > 0 && p.published[n-1].ReloadDue)
	p.mu.Unlock()
	if _, err := p.recordingNode.Apply(ctx, images); err != nil {
		return false, err
	}
	if p.crash != nil {
		p.crash()
		return false, ctx.Err()
	}
	return !p.refuse, nil
}

// lastStatus is the status that was published last.
func (p *crashingPins) lastStatus(t *testing.T) runtime.Status {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.published) == 0 {
		t.Fatal("got no published status, want one")
	}
	return p.published[len(p.published)-1]
}

func (p *crashingPins) countApplied(calls []string) int {
	return len(slices.DeleteFunc(slices.Clone(calls), func(call string) bool { return call != "pin" }))
}

// A process crashes between the rename of the drop-in and the reload. The next process finds the
// drop-in complete, but reloads CRI-O, once.
func TestReloadAfterACrash(t *testing.T) {
	r, node := newRecordingNode(t, 2)
	for _, img := range node.sets[0].Images {
		node.stored = append(node.stored, img.String())
	}
	ctx, crash := context.WithCancel(t.Context())
	p := &crashingPins{recordingNode: node, crash: crash}
	r.Pins = p
	if _, err := r.Pass(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if !slices.Equal(p.reloadDue, []bool{true}) {
		t.Errorf("before the write of the drop-in: got ReloadDue %v, want true once", p.reloadDue)
	}
	if !p.lastStatus(t).ReloadDue {
		t.Error("after the crash: got ReloadDue false, want true")
	}
	p.crash = nil
	next := restart(r, p.lastStatus(t))
	if s := runPass(t, next); !s.Healthy() || s.ReloadDue {
		t.Errorf("got %v, reload due %v, want a healthy node", s.Errors, s.ReloadDue)
	}
	if got := p.countApplied(node.calls); got != 2 {
		t.Errorf("got %d reloads, want the one that crashed, and another", got)
	}
	for _, r := range []*runtime.Reconciler{next, restart(r, p.lastStatus(t))} {
		runPass(t, r)
	}
	if got := p.countApplied(node.calls); got != 2 {
		t.Errorf("after two more passes: got %d reloads, want 2", got)
	}
}

// A reload that a conflict in the configuration prevents stays due.
func TestPostponedReloadStaysDue(t *testing.T) {
	r, node := newRecordingNode(t, 1)
	p := &crashingPins{recordingNode: node, refuse: true}
	r.Pins = p
	if s := runPass(t, r); !s.ReloadDue {
		t.Errorf("got %+v, want ReloadDue true", s)
	}
	p.refuse = false
	if s := runPass(t, restart(r, p.lastStatus(t))); s.ReloadDue {
		t.Errorf("got %+v, want ReloadDue false", s)
	}
	if got := p.countApplied(node.calls); got != 2 {
		t.Errorf("got %d reloads, want 2", got)
	}
}
