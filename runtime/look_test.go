package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/pinset"
)

// conflictingPins are pins that something in the configuration stands against.
type conflictingPins struct {
	*recordingNode
	conflict, refusal error
	exact             bool
}

func (o conflictingPins) Check([]pinset.Image) error    { return o.conflict }
func (o conflictingPins) Refusal(context.Context) error { return o.refusal }

func (o conflictingPins) Current() ([]pinset.Image, bool, []string, error) {
	return o.fakeNode.pins, o.exact, nil, nil
}

// A plan says what a pass would do, and changes nothing.
func TestPlan(t *testing.T) {
	r, j := newRecordingNode(t, 3)
	images := j.sets[0].Images
	j.stored = []string{images[0].String()}
	j.fakeNode.pins = []pinset.Image{images[0], {Repository: "quay.io/x/old", Digest: digest.FromString("old")}}
	p, err := r.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Pulls) != 2 || p.Pulls[0].Image != images[1] || p.Need().Fetch != 2000 || !p.Need().Estimated {
		t.Errorf("got the pulls %+v, want two of 1000 bytes each", p.Pulls)
	}
	if !p.Rewrite || !p.Reload || p.Owner != runtime.Pinbox || !slices.Equal(p.Pins, images) {
		t.Errorf("got %+v, want that the drop-in is written and read", p)
	}
	if len(p.Unpin) != 1 || p.Unpin[0].Repository != "quay.io/x/old" {
		t.Errorf("got %v to unpin, want quay.io/x/old", p.Unpin)
	}
	if len(p.Claims) != 1 || p.Claims[0].Bytes != 5000 || p.Problem != nil {
		t.Errorf("got the claims %+v, %v, want 4000 bytes unpacked, and 1000 of one pull", p.Claims, p.Problem)
	}
	if pulls, _ := j.server.Counts(); pulls > 0 || slices.Contains(j.calls, "pin") || len(j.fakeNode.published) > 0 {
		t.Errorf("got the calls %q, want none that changes something", j.calls)
	}
	runPass(t, r)
	p, err = r.Plan(t.Context())
	if err != nil || len(p.Pulls) > 0 || p.Rewrite || p.Reload || len(p.Unpin) > 0 || p.Problem != nil {
		t.Errorf("after a pass: got %+v, %v, want nothing to do", p, err)
	}
}

// What would keep a pass from ending well is among the problems of its plan.
func TestPlanTellsProblems(t *testing.T) {
	conflict, broken := errors.New("99-admin has other pins"), errors.New("b.yaml cannot be read")
	for name, c := range map[string]struct {
		change func(*runtime.Reconciler, *recordingNode)
		want   error
		says   string
	}{
		"too little space": {func(_ *runtime.Reconciler, j *recordingNode) {
			j.space = disk.Space{Total: 1000, Free: 1000}
		}, runtime.ErrSpace, ""},
		"an image that nobody knows": {func(_ *runtime.Reconciler, j *recordingNode) {
			j.resolveErr = errors.New("manifest unknown")
		}, nil, "2 images cannot be looked up"},
		"a set that cannot be read": {func(r *runtime.Reconciler, j *recordingNode) {
			r.Sets = func() ([]pinset.Set, error) { return j.sets, broken }
		}, broken, ""},
		"a conflict that stays": {func(r *runtime.Reconciler, j *recordingNode) {
			r.Pins = conflictingPins{recordingNode: j, conflict: conflict, exact: true}
			j.fakeNode.pins = j.sets[0].Images
		}, conflict, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, j := newRecordingNode(t, 2)
			c.change(r, j)
			p, err := r.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := p.Problem
			if got == nil || c.want != nil && !errors.Is(got, c.want) || !strings.Contains(got.Error(), c.says) {
				t.Errorf("got %v, want %v, %q", p.Problem, c.want, c.says)
			}
		})
	}
}

// A conflict that the drop-in of the plan would end is none.
func TestPlanWithoutConflictThatItResolves(t *testing.T) {
	r, j := newRecordingNode(t, 1)
	r.Pins = conflictingPins{recordingNode: j, conflict: errors.New("99-admin has other pins")}
	if p, err := r.Plan(t.Context()); err != nil || p.Problem != nil || !p.Rewrite {
		t.Errorf("got %+v, %v, want no problem", p, err)
	}
}

// A lock tells what an image is made of, if it is for this architecture; then nobody asks a
// registry.
func TestPlanUsesLocks(t *testing.T) {
	r, j := newRecordingNode(t, 1)
	j.resolveErr = errors.New("no registry")
	locked := pinset.LockedImage{Pin: j.sets[0].Images[0].String(), Layers: []pinset.LockedLayer{
		{Digest: digest.FromString("blob"), Size: 7, DiffID: digest.FromString("tar"), UnpackedSize: 70, Inodes: 3},
	}}
	for arch, known := range map[string]bool{goruntime.GOARCH: true, "other": false} {
		j.storeLocks = []pinset.Lock{{Platform: pinset.Platform("linux/" + arch), Images: []pinset.LockedImage{locked}}}
		p, err := r.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := runtime.Need{Fetch: 7, Unpacked: 70, Inodes: 3}
		if got := p.Need(); known && got != want || (len(p.Unresolved) == 0) != known {
			t.Errorf("a lock for %s: got %+v, %d unknown, want known %v", arch, got, len(p.Unresolved), known)
		}
	}
}

// On a node that the Machine Config Operator manages, a pass only reports.
func TestMCOIsTheOwner(t *testing.T) {
	r, j := newRecordingNode(t, 2)
	r.Owner = runtime.MCO
	s := runPass(t, r)
	if !s.Pending() || s.Degraded() || !strings.HasPrefix(s.Summary(), "waiting for the Machine Config Operator") {
		t.Errorf("got %s, want that it waits for the operator", s.Summary())
	}
	if p, err := r.Plan(t.Context()); err != nil || p.Owner != runtime.MCO || len(p.Pulls) > 0 || p.Rewrite {
		t.Errorf("got the plan %+v, %v, want an empty one", p, err)
	}
	for _, img := range j.sets[0].Images {
		j.stored = append(j.stored, img.String())
	}
	j.fakeNode.pins = j.sets[0].Images
	r.Prune = true
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("got %s once the operator has pinned all, want a healthy node", s.Summary())
	}
	if slices.Contains(j.calls, "pin") || slices.Contains(j.calls, "pull") || len(j.removed()) > 0 {
		t.Errorf("got the calls %q, want none that changes something", j.calls)
	}
}

// Look tells how things stand without a pass: what the last one found out still counts.
func TestStatusBetweenPasses(t *testing.T) {
	r, j := newRecordingNode(t, 2)
	look := func(busy bool) runtime.Status {
		t.Helper()
		s, err := r.Status(t.Context(), busy)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := look(false); !s.Pending() || !strings.HasPrefix(s.Summary(), "waiting for a pass") {
		t.Errorf("before the first pass: got %s, want that one is waited for", s.Summary())
	}
	runPass(t, r)
	if s := look(false); !s.Healthy() {
		t.Errorf("after a pass: got %s, want a healthy node", s.Summary())
	}
	j.stored = j.stored[1:] // somebody removes an image
	if s := look(false); !s.Degraded() || s.Pending() {
		t.Errorf("with an image gone: got %s, want a degraded node", s.Summary())
	}
	images := j.sets[0].Images
	j.sets[0].Images = images[1:]
	if s := look(false); !s.Pending() {
		t.Errorf("with another set: got %s, want that a pass is waited for", s.Summary())
	}
	if s := look(true); s.Pending() {
		t.Errorf("with another set, during a pass: got %s, want that nothing is waited for", s.Summary())
	}
	j.sets[0].Images = images
	unauthorized := func(pinset.Image, int) error { return errors.New("unauthorized") }
	r.Images = &flakyRegistry{recordingNode: j, tried: map[string][]time.Time{}, fail: unauthorized}
	runPass(t, r)
	if s := look(false); !s.Degraded() || s.Images[0].ErrorClass != runtime.Auth || s.Images[0].Bytes != 1000 {
		t.Errorf("after a pass that failed: got %+v, want its fault and 1000 bytes", s.Images[0])
	}
	if len(j.fakeNode.published) == 0 {
		t.Error("got no status published by passes")
	}
}

// While another process pulls, its progress is told.
func TestStatusDuringAPass(t *testing.T) {
	r, j := newRecordingNode(t, 2)
	during := make(chan runtime.Status, 1)
	r.Images = &flakyRegistry{recordingNode: j, tried: map[string][]time.Time{}, fail: func(pinset.Image, int) error {
		j.fakeNode.mu.Lock()
		published := j.fakeNode.published[len(j.fakeNode.published)-1]
		j.fakeNode.mu.Unlock()
		s, err := restart(r, published).Status(t.Context(), true)
		if err != nil {
			t.Error(err)
		}
		select {
		case during <- s:
		default:
		}
		return nil
	}}
	runPass(t, r)
	s := <-during
	if s.Progress == nil || s.Progress.OfImages != 2 || s.Progress.OfBytes != 2000 || s.Degraded() || s.Pending() {
		t.Errorf("got %s, %+v, want the progress of two pulls", s.Summary(), s.Progress)
	}
}

// A store that is away makes the node a degraded one, by its name.
func TestUnavailableStore(t *testing.T) {
	r, _ := newRecordingNode(t, 1)
	state := runtime.StoreMounted
	var failed error
	r.Stores = func(context.Context) ([]runtime.StoreStatus, error) {
		return []runtime.StoreStatus{{Slot: "3", Digest: "sha256:1", State: state, Error: "its file is lost"}}, failed
	}
	if s := runPass(t, r); !s.Healthy() || len(s.Stores) != 1 {
		t.Errorf("got %v, %v, want a healthy node with a store", s.Errors, s.Stores)
	}
	state = runtime.StoreUnavailable
	if s := runPass(t, r); !s.Degraded() || !slices.Equal(s.Errors, []string{"store sha256:1, slot 3: its file is lost"}) {
		t.Errorf("got %v, want what is wrong with the store", s.Errors)
	}
	state, failed = runtime.StoreMounted, errors.New("state.json cannot be read")
	if s, err := r.Status(t.Context(), false); err != nil || !slices.Equal(s.Errors, []string{failed.Error()}) {
		t.Errorf("got %v, %v, want %v", s.Errors, err, failed)
	}
}

// What is wrong with the configuration of the node is told beside all else.
func TestConfigureError(t *testing.T) {
	r, _ := newRecordingNode(t, 1)
	broken := errors.New("node.json cannot be read")
	r.Configure = func(r *runtime.Reconciler) error {
		r.Node = "node13"
		return broken
	}
	s := runPass(t, r)
	if !slices.Equal(s.Errors, []string{broken.Error()}) || s.Node != "node13" || s.Images[0].State != runtime.Pinned {
		t.Errorf("got %v of %s, %v, want %v beside an image that is pinned", s.Errors, s.Node, s.Images, broken)
	}
	if _, err := r.Plan(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// A status that cannot be published ends the pass, and what runs.
func TestPublishError(t *testing.T) {
	full := errors.New("no space for status.json")
	for after := range 4 {
		r, j := newRecordingNode(t, 2)
		n := 0
		r.Publish = func(s runtime.Status) error {
			if n++; n > after {
				return full
			}
			return j.fakeNode.publish(s)
		}
		if _, err := r.Pass(t.Context()); !errors.Is(err, full) {
			t.Errorf("after %d statuses: got %v, want %v", after, err, full)
		}
	}
}
