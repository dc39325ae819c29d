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

// registry fails some pulls, and writes down when each was tried.
type registry struct {
	*journal
	// fails says why the attempt of a number, from 1 on, fails; nil if it does not.
	fails func(img pinset.Image, attempt int) error

	mu    sync.Mutex
	tried map[string][]time.Time
	order []string
}

func (g *registry) Pull(ctx context.Context, img pinset.Image) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := img.String()
	g.tried[name] = append(g.tried[name], time.Now())
	g.order = append(g.order, name)
	if err := g.fails(img, len(g.tried[name])); err != nil {
		return err
	}
	return g.journal.Pull(ctx, img)
}

// failing is a node with n images to pull, one at a time, from such a registry.
func failing(t *testing.T, n int, fails func(img pinset.Image, attempt int) error) (*runtime.Reconciler, *registry) {
	t.Helper()
	r, j := journaled(t, n)
	g := &registry{journal: j, fails: fails, tried: map[string][]time.Time{}}
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
			r, g := failing(t, 1, func(pinset.Image, int) error { return status.Error(codes.Unknown, text) })
			r.Retry.Tries = 3
			s := pass(t, r)
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
func TestPullsBackOff(t *testing.T) {
	refused := errors.New("connection refused")
	r, g := failing(t, 1, func(_ pinset.Image, attempt int) error {
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
	if s := pass(t, r); !s.Healthy() {
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
func TestLastAttemptIsTheLast(t *testing.T) {
	r, _ := failing(t, 1, func(pinset.Image, int) error { return errors.New("connection refused") })
	r.Retry.Tries = 2
	var told []time.Duration
	r.Hooks.Failed = func(_ pinset.Image, _ runtime.Fault, again time.Duration) { told = append(told, again) }
	pass(t, r)
	if len(told) != 2 || told[0] == 0 || told[1] != 0 {
		t.Errorf("got the waits %v, want one, and then none", told)
	}
}

// While one image waits for its next attempt, the others are pulled.
func TestOthersArePulledWhileOneWaits(t *testing.T) {
	var first string
	r, g := failing(t, 3, func(img pinset.Image, attempt int) error {
		if img.String() == first && attempt == 1 {
			return errors.New("connection refused")
		}
		return nil
	})
	images := g.sets[0].Images
	first = images[0].String()
	r.Retry.First = 300 * time.Millisecond
	if s := pass(t, r); !s.Healthy() {
		t.Errorf("got %v, want a healthy node", s.Errors)
	}
	if want := []string{first, images[1].String(), images[2].String(), first}; !slices.Equal(g.order, want) {
		t.Errorf("got the attempts %q, want %q", g.order, want)
	}
}

// restarted is a process that takes up what another has published last.
func restarted(r *runtime.Reconciler, published runtime.Status) *runtime.Reconciler {
	next := &runtime.Reconciler{
		Runtime: r.Runtime, Images: r.Images, Pins: r.Pins, Manifests: r.Manifests, Disk: r.Disk,
		Sets: r.Sets, Publish: r.Publish, Options: r.Options,
	}
	next.Continue(published)
	return next
}

// dropIn is the file of the pins. A process that writes it may die before CRI-O was told.
type dropIn struct {
	*journal
	// dies, unless it is nil, is called between the two.
	dies func()
	// refuses says that CRI-O is not told, since something in its configuration objects.
	refuses bool
	// due says for each write whether the status on record was that a reload is due.
	due []bool
}

func (p *dropIn) Apply(ctx context.Context, images []pinset.Image) (bool, error) {
	p.world.mu.Lock()
	n := len(p.published)
	p.due = append(p.due, n > 0 && p.published[n-1].ReloadDue)
	p.world.mu.Unlock()
	if _, err := p.journal.Apply(ctx, images); err != nil {
		return false, err
	}
	if p.dies != nil {
		p.dies()
		return false, ctx.Err()
	}
	return !p.refuses, nil
}

// last is the status on record.
func (p *dropIn) last(t *testing.T) runtime.Status {
	t.Helper()
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if len(p.published) == 0 {
		t.Fatal("got no status, want one on record")
	}
	return p.published[len(p.published)-1]
}

func (p *dropIn) pins(calls []string) int {
	return len(slices.DeleteFunc(slices.Clone(calls), func(call string) bool { return call != "pin" }))
}

// A process dies between the rename of the drop-in and the reload. The drop-in is as it
// should be then, and CRI-O may pin all that is asked for; but it has not read the file, so
// the next process has it reload, once.
func TestReloadIsNotLostByACrash(t *testing.T) {
	r, j := journaled(t, 2)
	for _, img := range j.sets[0].Images {
		j.images = append(j.images, img.String())
	}
	ctx, die := context.WithCancel(t.Context())
	p := &dropIn{journal: j, dies: die}
	r.Pins = p
	if _, err := r.Pass(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a process that dies", err)
	}
	if !slices.Equal(p.due, []bool{true}) {
		t.Errorf("got %v, want that a reload was on record before the drop-in was written", p.due)
	}
	if !p.last(t).ReloadDue {
		t.Error("after the crash: got no reload on record, want one")
	}
	p.dies = nil
	next := restarted(r, p.last(t))
	if s := pass(t, next); !s.Healthy() || s.ReloadDue {
		t.Errorf("got %v, reload due %v, want a healthy node", s.Errors, s.ReloadDue)
	}
	if got := p.pins(j.calls); got != 2 {
		t.Errorf("got %d reloads, want that of the crash and one", got)
	}
	for _, r := range []*runtime.Reconciler{next, restarted(r, p.last(t))} {
		pass(t, r)
	}
	if got := p.pins(j.calls); got != 2 {
		t.Errorf("got %d reloads in the end, want no more", got)
	}
}

// A reload that was put off, since the configuration objects, stays on record.
func TestReloadThatWasPutOffIsStillDue(t *testing.T) {
	r, j := journaled(t, 1)
	p := &dropIn{journal: j, refuses: true}
	r.Pins = p
	if s := pass(t, r); !s.ReloadDue {
		t.Errorf("got %+v, want that a reload is due", s)
	}
	p.refuses = false
	if s := pass(t, restarted(r, p.last(t))); s.ReloadDue {
		t.Errorf("got %+v, want that none is due", s)
	}
	if got := p.pins(j.calls); got != 2 {
		t.Errorf("got %d reloads, want 2", got)
	}
}
