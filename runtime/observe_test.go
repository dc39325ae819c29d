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

// conflictingPins are pins with a conflict in CRI-O's configuration, or a refused reload.
type conflictingPins struct {
	*recordingNode
	conflict, refusal error
	exact             bool
}

func (o conflictingPins) Check([]pinset.Image) error    { return o.conflict }
func (o conflictingPins) Refusal(context.Context) error { return o.refusal }

func (o conflictingPins) Current() ([]pinset.Image, bool, func(string) bool, error) {
	return o.fakeNode.pins, o.exact, nil, nil
}

// A plan lists what a pass would do, and changes nothing.
func TestPlan(t *testing.T) {
	r, node := newRecordingNode(t, 3)
	images := node.sets[0].Images
	node.stored = []string{images[0].String()}
	node.pins = []pinset.Image{images[0], {Repository: "quay.io/x/old", Digest: digest.FromString("old")}}
	p, err := r.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Pulls) != 2 || p.Pulls[0].Image != images[1] || p.Need().Fetch != 2000 || !p.Need().Estimated {
		t.Errorf("got the pulls %+v, want two of 1000 bytes each", p.Pulls)
	}
	if !p.Rewrite || !p.Reload || p.Owner != runtime.Pinbox || !slices.Equal(p.Pins, images) {
		t.Errorf("got %+v, want a rewrite of the drop-in with %v, and a reload", p, images)
	}
	if len(p.Unpin) != 1 || p.Unpin[0].Repository != "quay.io/x/old" {
		t.Errorf("got %v to unpin, want quay.io/x/old", p.Unpin)
	}
	if len(p.Claims) != 1 || p.Claims[0].Bytes != 5000 || p.Problem != nil {
		t.Errorf("got the claims %+v, %v, want 4000 bytes unpacked, and 1000 of one pull", p.Claims, p.Problem)
	}
	if pulls, _ := node.server.Counts(); pulls > 0 || slices.Contains(node.calls, "pin") || len(node.published) > 0 {
		t.Errorf("got the calls %q, want none that changes the node", node.calls)
	}
	runPass(t, r)
	p, err = r.Plan(t.Context())
	if err != nil || len(p.Pulls) > 0 || p.Rewrite || p.Reload || len(p.Unpin) > 0 || p.Problem != nil {
		t.Errorf("after a pass: got %+v, %v, want nothing to do", p, err)
	}
}

// The error that would make a pass fail is the problem of its plan.
func TestPlanProblems(t *testing.T) {
	conflict, broken := errors.New("99-admin has other pins"), errors.New("b.yaml cannot be read")
	for name, c := range map[string]struct {
		change func(*runtime.Reconciler, *recordingNode)
		want   error
		text   string
	}{
		"too little space": {func(_ *runtime.Reconciler, node *recordingNode) {
			node.space = disk.Space{Total: 1000, Free: 1000}
		}, runtime.ErrSpace, ""},
		"an image that no registry has": {func(_ *runtime.Reconciler, node *recordingNode) {
			node.resolveErr = errors.New("manifest unknown")
		}, nil, "2 images cannot be looked up"},
		"a set that cannot be read": {func(r *runtime.Reconciler, node *recordingNode) {
			of(r).sets = func() ([]pinset.Set, error) { return node.sets, broken }
		}, broken, ""},
		"a conflict that stays": {func(r *runtime.Reconciler, node *recordingNode) {
			r.Pins = conflictingPins{recordingNode: node, conflict: conflict, exact: true}
			node.pins = node.sets[0].Images
		}, conflict, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, node := newRecordingNode(t, 2)
			c.change(r, node)
			p, err := r.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := p.Problem
			if got == nil || c.want != nil && !errors.Is(got, c.want) || !strings.Contains(got.Error(), c.text) {
				t.Errorf("got %v, want %v, %q", p.Problem, c.want, c.text)
			}
		})
	}
}

// A conflict with the old drop-in is not a problem if the plan rewrites it.
func TestPlanWithoutConflictThatItResolves(t *testing.T) {
	r, node := newRecordingNode(t, 1)
	r.Pins = conflictingPins{recordingNode: node, conflict: errors.New("99-admin has other pins")}
	if p, err := r.Plan(t.Context()); err != nil || p.Problem != nil || !p.Rewrite {
		t.Errorf("got %+v, %v, want no problem", p, err)
	}
}

// The layers of an image are read from a lock for this architecture, without a request to a
// registry.
func TestPlanUsesLocks(t *testing.T) {
	r, node := newRecordingNode(t, 1)
	node.resolveErr = errors.New("no registry")
	locked := pinset.LockedImage{Pin: node.sets[0].Images[0].String(), Layers: []*pinset.LockedLayer{
		{Digest: digest.FromString("blob"), Size: 7, DiffID: digest.FromString("tar"), UnpackedSize: 70, Inodes: 3},
	}}
	for arch, known := range map[string]bool{goruntime.GOARCH: true, "other": false} {
		node.storeLocks = []pinset.Lock{{Platform: pinset.Platform("linux/" + arch), Images: []pinset.LockedImage{locked}}}
		p, err := r.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := runtime.Need{Fetch: 7, Unpacked: 70, Inodes: 3}
		if got := p.Need(); known && got != want || (len(p.Unresolved) == 0) != known {
			t.Errorf("a lock for %s: got %+v, %d unresolved, want %+v: %v", arch, got, len(p.Unresolved), want, known)
		}
	}
}

// On a node that the Machine Config Operator manages, a pass only reports.
func TestMCOIsTheOwner(t *testing.T) {
	r, node := newRecordingNode(t, 2)
	options(r).Owner = runtime.MCO
	s := runPass(t, r)
	if !s.Pending() || s.Degraded() || !strings.HasPrefix(s.Summary(), "waiting for the Machine Config Operator") {
		t.Errorf("got %s, want a node that waits for the operator", s.Summary())
	}
	if p, err := r.Plan(t.Context()); err != nil || p.Owner != runtime.MCO || len(p.Pulls) > 0 || p.Rewrite {
		t.Errorf("got the plan %+v, %v, want an empty one", p, err)
	}
	for _, img := range node.sets[0].Images {
		node.stored = append(node.stored, img.String())
	}
	node.pins = node.sets[0].Images
	options(r).Prune = true
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("got %s after the operator has pinned all, want a healthy node", s.Summary())
	}
	if slices.Contains(node.calls, "pin") || slices.Contains(node.calls, "pull") || len(node.removed()) > 0 {
		t.Errorf("got the calls %q, want none that changes the node", node.calls)
	}
}

// Status observes the node without a pass, and keeps the errors of the last pass.
func TestStatusBetweenPasses(t *testing.T) {
	r, node := newRecordingNode(t, 2)
	status := func(busy bool) runtime.Status {
		t.Helper()
		s, err := r.Status(t.Context(), busy)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := status(false); !s.Pending() || !strings.HasPrefix(s.Summary(), "waiting for a pass") {
		t.Errorf("before the first pass: got %s, want that it waits for one", s.Summary())
	}
	runPass(t, r)
	if s := status(false); !s.Healthy() {
		t.Errorf("after a pass: got %s, want a healthy node", s.Summary())
	}
	node.stored = node.stored[1:] // removed by a user
	if s := status(false); !s.Degraded() || s.Pending() {
		t.Errorf("with a removed image: got %s, want a degraded node", s.Summary())
	}
	images := node.sets[0].Images
	node.sets[0].Images = images[1:]
	if s := status(false); !s.Pending() {
		t.Errorf("with another set: got %s, want that it waits for a pass", s.Summary())
	}
	if s := status(true); s.Pending() {
		t.Errorf("with another set, during a pass: got %s, want no pending pass", s.Summary())
	}
	node.sets[0].Images = images
	unauthorized := func(pinset.Image, int) error { return errors.New("unauthorized") }
	r.Images = &flakyRegistry{recordingNode: node, tried: map[string][]time.Time{}, fail: unauthorized}
	runPass(t, r)
	if s := status(false); !s.Degraded() || s.Images[0].ErrorClass != runtime.Auth || s.Images[0].Bytes != 1000 {
		t.Errorf("after a pass that failed: got %+v, want its fault and 1000 bytes", s.Images[0])
	}
	if len(node.published) == 0 {
		t.Error("got no published status, want the statuses of the passes")
	}
}

// While another process pulls, Status reports its progress.
func TestStatusDuringAPass(t *testing.T) {
	r, node := newRecordingNode(t, 2)
	during := make(chan runtime.Status, 1)
	r.Images = &flakyRegistry{recordingNode: node, tried: map[string][]time.Time{}, fail: func(pinset.Image, int) error {
		node.mu.Lock()
		published := node.published[len(node.published)-1]
		node.mu.Unlock()
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

// An unavailable store makes the node degraded, with its digest and slot in the error.
func TestUnavailableStore(t *testing.T) {
	r, _ := newRecordingNode(t, 1)
	state, reason := runtime.StoreMounted, ""
	var failed error
	r.Stores = of(r)
	of(r).stores = func() (runtime.StoresState, error) {
		one := runtime.StoreStatus{Slot: "3", Digest: "sha256:1", State: state, Error: reason}
		return runtime.StoresState{Stores: []runtime.StoreStatus{one}}, failed
	}
	if s := runPass(t, r); !s.Healthy() || len(s.Stores) != 1 {
		t.Errorf("got %v, %v, want a healthy node with a store", s.Errors, s.Stores)
	}
	state, reason = runtime.StoreUnavailable, "its file is missing"
	if s := runPass(t, r); !s.Degraded() || !slices.Equal(s.Errors, []string{"store sha256:1, slot 3: its file is missing"}) {
		t.Errorf("got %v, want what is wrong with the store", s.Errors)
	}
	state, reason, failed = runtime.StoreMounted, "", errors.New("state.json cannot be read")
	if s, err := r.Status(t.Context(), false); err != nil || !slices.Equal(s.Errors, []string{failed.Error()}) {
		t.Errorf("got %v, %v, want %v", s.Errors, err, failed)
	}
}

// An error of Configure is reported, and the pass continues.
func TestConfigureError(t *testing.T) {
	r, _ := newRecordingNode(t, 1)
	broken := errors.New("node.json cannot be read")
	options(r).Node, of(r).configErr = "node13", broken
	s := runPass(t, r)
	if !slices.Equal(s.Errors, []string{broken.Error()}) || s.Node != "node13" || s.Images[0].State != runtime.Pinned {
		t.Errorf("got %v of %s, %v, want %v of node13, and a pinned image", s.Errors, s.Node, s.Images, broken)
	}
	if p, err := r.Plan(t.Context()); err != nil || !errors.Is(p.Problem, broken) || len(p.Pins) != 1 {
		t.Errorf("got the plan %+v, %v, want a pin and the problem %v", p, err, broken)
	}
}

// If a status cannot be published, the pass ends with that error.
func TestPublishError(t *testing.T) {
	full := errors.New("no space for status.json")
	for after := range 4 {
		r, node := newRecordingNode(t, 2)
		n := 0
		of(r).publish = func(s runtime.Status) error {
			if n++; n > after {
				return full
			}
			return node.publish(s)
		}
		if _, err := r.Pass(t.Context()); !errors.Is(err, full) {
			t.Errorf("after %d statuses: got %v, want %v", after, err, full)
		}
	}
}

// A pod's program can be unreadable while all images are there and pinned: the status says which store has
// changed, and where.
func TestStatusOfAChangedStore(t *testing.T) {
	corrupted := &runtime.VerityStatus{State: runtime.Corrupted, CorruptOffsets: []int64{4096, 8192, 12288}}
	verified := &runtime.VerityStatus{State: runtime.Verified}
	unverified := &runtime.VerityStatus{State: runtime.Unverified, Reason: "there is no dmsetup"}
	for name, c := range map[string]struct {
		own, attached *runtime.VerityStatus
		want          string
	}{
		"verified":   {verified, verified, ""},
		"unverified": {unverified, unverified, ""},
		"no own":     {nil, verified, ""},
		"attached": {verified, corrupted, "store sha256:1, slot 3: the store has changed at byte 4096 and 2 other places: " +
			"reads of changed blocks fail; any of its 7 images may be unreadable"},
		"own": {corrupted, verified, "the appliance's store, slot 0: the store has changed at byte 4096 and 2 other " +
			"places: reads of changed blocks fail"},
		"place unknown": {
			&runtime.VerityStatus{State: runtime.Corrupted}, nil,
			"the appliance's store, slot 0: the store has changed: reads of changed blocks fail",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newRecordingNode(t, 1)
			r.Stores = of(r)
			of(r).stores = func() (runtime.StoresState, error) {
				return runtime.StoresState{Own: c.own, Stores: []runtime.StoreStatus{{
					Slot: "3", Digest: "sha256:1", State: runtime.StoreMounted, Images: 7, Verity: c.attached,
					Error: c.attached.Problem(7),
				}}}, nil
			}
			s := runPass(t, r)
			if got := strings.Join(s.Errors, "\n"); got != c.want || s.Degraded() != (c.want != "") {
				t.Errorf("got %q, degraded %v, want %q", got, s.Degraded(), c.want)
			}
			if s.OwnStore != c.own {
				t.Errorf("got own store %+v, want %+v", s.OwnStore, c.own)
			}
		})
	}
}
