package runtime_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// flakyRegistry fails some pulls, and writes down when each was tried.
type flakyRegistry struct {
	*recordingNode
	// fail says why the attempt of a number, from 1 on, fails; nil if it does not.
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

// newFlakyRegistry is a node with n images to pull, one at a time, from such a registry.
func newFlakyRegistry(t *testing.T, n int, fails func(img pinset.Image, attempt int) error) (*runtime.Reconciler, *flakyRegistry) {
	t.Helper()
	r, j := newRecordingNode(t, n)
	g := &flakyRegistry{recordingNode: j, fail: fails, tried: map[string][]time.Time{}}
	r.Images = g
	return r, g
}

// A pull is tried again if it may pass, and as often as the options say; what somebody has
// to change first is not.
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
			r, g := newFlakyRegistry(t, 1, func(pinset.Image, int) error { return status.Error(codes.Unknown, text) })
			r.Retry.Tries = 3
			s := runPass(t, r)
			if tries := len(g.order); tries != want.tries {
				t.Errorf("got %d attempts, want %d", tries, want.tries)
			}
			if got := s.Images[0]; got.ErrorClass != want.class || got.Error != text || !s.Degraded() {
				t.Errorf("got the status %+v, want an error of class %s: %s", got, want.class, text)
			}
		})
	}
}

// The wait doubles up to the longest, and between half of it and all of it is left to chance.
func TestPullBackoff(t *testing.T) {
	refused := errors.New("connection refused")
	r, g := newFlakyRegistry(t, 1, func(_ pinset.Image, attempt int) error {
		if attempt < 5 {
			return refused
		}
		return nil
	})
	r.Retry = runtime.Retry{First: 80 * time.Millisecond, Longest: 200 * time.Millisecond, Tries: 5}
	var told []time.Duration
	r.Hooks.Failed = func(_ pinset.Image, f runtime.Fault, again time.Duration) {
		if f.Class != runtime.Network || f.Text != refused.Error() {
			t.Errorf("got the fault %+v, want one of the network: %v", f, refused)
		}
		told = append(told, again)
	}
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("got %v, want a healthy node at the fifth attempt", s.Errors)
	}
	const ms = time.Millisecond
	longest := []time.Duration{80 * ms, 160 * ms, 200 * ms, 200 * ms}
	if len(told) != len(longest) {
		t.Fatalf("got %v, want %d waits", told, len(longest))
	}
	tried := g.tried[g.order[0]]
	for i, all := range longest {
		if told[i] < all/2 || told[i] > all {
			t.Errorf("wait %d: got %s, want between %s and %s", i+1, told[i], all/2, all)
		}
		if waited := tried[i+1].Sub(tried[i]); waited < told[i] {
			t.Errorf("wait %d: attempt %d came after %s, want %s", i+1, i+2, waited, told[i])
		}
	}
}

// The last attempt is followed by none, and those who watch are told so.
func TestNoWaitAfterTheLastAttempt(t *testing.T) {
	r, _ := newFlakyRegistry(t, 1, func(pinset.Image, int) error { return errors.New("connection refused") })
	r.Retry.Tries = 2
	var told []time.Duration
	r.Hooks.Failed = func(_ pinset.Image, _ runtime.Fault, again time.Duration) { told = append(told, again) }
	runPass(t, r)
	if len(told) != 2 || told[0] == 0 || told[1] != 0 {
		t.Errorf("got the waits %v, want one, and then none", told)
	}
}

// While one image waits for its next attempt, the others are pulled.
func TestRetryDoesNotDelayOtherPulls(t *testing.T) {
	var first string
	r, g := newFlakyRegistry(t, 3, func(img pinset.Image, attempt int) error {
		if img.String() == first && attempt == 1 {
			return errors.New("connection refused")
		}
		return nil
	})
	images := g.sets[0].Images
	first = images[0].String()
	r.Retry.First = 300 * time.Millisecond
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("got %v, want a healthy node", s.Errors)
	}
	if want := []string{first, images[1].String(), images[2].String(), first}; !slices.Equal(g.order, want) {
		t.Errorf("got the attempts %q, want %q", g.order, want)
	}
}

// restart is a process that takes up what another has published last.
func restart(r *runtime.Reconciler, published runtime.Status) *runtime.Reconciler {
	next := &runtime.Reconciler{
		Runtime: r.Runtime, Images: r.Images, Pins: r.Pins, Manifests: r.Manifests, Disk: r.Disk,
		Sets: r.Sets, Publish: r.Publish, Options: r.Options,
	}
	next.Continue(published)
	return next
}

// crashingPins is the file of the pins. A process that writes it may die before CRI-O was told.
type crashingPins struct {
	*recordingNode
	// dies, unless it is nil, is called between the two.
	crash func()
	// refuse says that CRI-O is not told, since something in its configuration objects.
	refuse bool
	// reloadDue says for each write whether the status on record was that a reload is due.
	reloadDue []bool
}

func (p *crashingPins) Apply(ctx context.Context, images []pinset.Image) (bool, error) {
	p.fakeNode.mu.Lock()
	n := len(p.published)
	p.reloadDue = append(p.reloadDue, n > 0 && p.published[n-1].ReloadDue)
	p.fakeNode.mu.Unlock()
	if _, err := p.recordingNode.Apply(ctx, images); err != nil {
		return false, err
	}
	if p.crash != nil {
		p.crash()
		return false, ctx.Err()
	}
	return !p.refuse, nil
}

// lastStatus is the status on record.
func (p *crashingPins) lastStatus(t *testing.T) runtime.Status {
	t.Helper()
	p.fakeNode.mu.Lock()
	defer p.fakeNode.mu.Unlock()
	if len(p.published) == 0 {
		t.Fatal("got no status, want one on record")
	}
	return p.published[len(p.published)-1]
}

func (p *crashingPins) countApplied(calls []string) int {
	return len(slices.DeleteFunc(slices.Clone(calls), func(call string) bool { return call != "pin" }))
}

// A process dies between the rename of the drop-in and the reload. The drop-in is as it
// should be then, and CRI-O may pin all that is asked for; but it has not read the file, so
// the next process has it reload, once.
func TestReloadAfterACrash(t *testing.T) {
	r, j := newRecordingNode(t, 2)
	for _, img := range j.sets[0].Images {
		j.stored = append(j.stored, img.String())
	}
	ctx, die := context.WithCancel(t.Context())
	p := &crashingPins{recordingNode: j, crash: die}
	r.Pins = p
	if _, err := r.Pass(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a process that dies", err)
	}
	if !slices.Equal(p.reloadDue, []bool{true}) {
		t.Errorf("got %v, want that a reload was on record before the drop-in was written", p.reloadDue)
	}
	if !p.lastStatus(t).ReloadDue {
		t.Error("after the crash: got no reload on record, want one")
	}
	p.crash = nil
	next := restart(r, p.lastStatus(t))
	if s := runPass(t, next); !s.Healthy() || s.ReloadDue {
		t.Errorf("got %v, reload due %v, want a healthy node", s.Errors, s.ReloadDue)
	}
	if got := p.countApplied(j.calls); got != 2 {
		t.Errorf("got %d reloads, want that of the crash and one", got)
	}
	for _, r := range []*runtime.Reconciler{next, restart(r, p.lastStatus(t))} {
		runPass(t, r)
	}
	if got := p.countApplied(j.calls); got != 2 {
		t.Errorf("got %d reloads in the end, want no more", got)
	}
}

// A reload that was put off, since the configuration objects, stays on record.
func TestPostponedReloadStaysDue(t *testing.T) {
	r, j := newRecordingNode(t, 1)
	p := &crashingPins{recordingNode: j, refuse: true}
	r.Pins = p
	if s := runPass(t, r); !s.ReloadDue {
		t.Errorf("got %+v, want that a reload is due", s)
	}
	p.refuse = false
	if s := runPass(t, restart(r, p.lastStatus(t))); s.ReloadDue {
		t.Errorf("got %+v, want that none is due", s)
	}
	if got := p.countApplied(j.calls); got != 2 {
		t.Errorf("got %d reloads, want 2", got)
	}
}
