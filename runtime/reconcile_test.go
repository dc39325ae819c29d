package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/pinset"
)

// fakeNode is what a reconciler of these tests stands in: a fake runtime, which
// fails as the real one cannot be made to, and a node that has enough of all.
type fakeNode struct {
	server       *fakecri.Server
	sets         []pinset.Set
	pins         []pinset.Image
	space        disk.Space
	staged       atomic.Int64
	resolveErr   error  // of manifests
	sharedLayer  bool   // the images have a layer in common
	hangingImage string // the image whose manifest never comes

	mu        sync.Mutex
	published []runtime.Status
}

func (w *fakeNode) Current() ([]pinset.Image, bool, []string, error) { return w.pins, true, nil, nil }
func (w *fakeNode) Check([]pinset.Image) error                       { return nil }
func (w *fakeNode) Refusal(context.Context) error                    { return nil }
func (w *fakeNode) Locks() (stores, beside []pinset.Lock, err error) { return nil, nil, nil }
func (w *fakeNode) Layers(string) (pinset.Layers, error)             { return pinset.Layers{}, nil }
func (w *fakeNode) Staged() int64                                    { return w.staged.Load() }
func (w *fakeNode) Forget()                                          {}

func (w *fakeNode) Apply(_ context.Context, images []pinset.Image) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pins = images
	return true, nil
}

// isPinned says that a name is among those that were applied.
func (w *fakeNode) isPinned(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.pins, func(img pinset.Image) bool { return img.String() == name })
}

func (w *fakeNode) Space(root string) (store, staging disk.Space, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.space, disk.Space{Device: 1, Total: 1 << 40, Free: 1 << 40}, nil
}

func (w *fakeNode) Resolve(ctx context.Context, img pinset.Image) (pinset.LockedImage, error) {
	if w.hangingImage != "" && strings.Contains(img.Repository, w.hangingImage) {
		<-ctx.Done()
		return pinset.LockedImage{}, ctx.Err()
	}
	if w.resolveErr != nil {
		return pinset.LockedImage{}, w.resolveErr
	}
	layers := []pinset.LockedLayer{{Digest: img.Digest, Size: 1000}}
	if w.sharedLayer {
		layers = append([]pinset.LockedLayer{{Digest: digest.FromString("shared"), Size: 1000}}, layers...)
	}
	return pinset.LockedImage{Pin: img.String(), Layers: layers}, nil
}

func (w *fakeNode) publish(s runtime.Status) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published = append(w.published, s)
	return nil
}

// newReconciler puts a world and n images to have together.
func newReconciler(t *testing.T, w *fakeNode, n int) *runtime.Reconciler {
	t.Helper()
	w.server.Name, w.server.Root = "cri-o", t.TempDir()
	if w.server.Release == "" {
		w.server.Release = "1.34.0"
	}
	w.server.Start(t)
	client, err := cri.Dial(w.server.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	set := pinset.Set{Name: "s"}
	for i := range n {
		name := fmt.Sprintf("quay.io/x/image-%03d", i)
		set.Images = append(set.Images, pinset.Image{Repository: name, Digest: digest.FromString(name)})
	}
	w.sets = []pinset.Set{set}
	w.space = disk.Space{Total: 1 << 40, Free: 1 << 40}
	return &runtime.Reconciler{
		Runtime: client, Images: client, Pins: w, Manifests: w, Disk: w,
		Sets: func() ([]pinset.Set, error) { return w.sets, nil }, Publish: w.publish,
		Options: runtime.Options{
			Node: "node12", Retry: runtime.Retry{First: time.Millisecond}, PublishInterval: 10 * time.Millisecond,
			Wait: 5 * time.Second,
		},
	}
}

func runPass(t *testing.T, r *runtime.Reconciler) runtime.Status {
	t.Helper()
	s, err := r.Pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// U2 of the Machine Config Operator, TestPrefetchImageSets: one image, one pull.
func TestImageIsPulledOnce(t *testing.T) {
	w := &fakeNode{server: &fakecri.Server{}}
	r := newReconciler(t, w, 1)
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("%+v", s)
	}
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("%+v", s)
	}
	if pulls, _ := w.server.Counts(); pulls != 1 {
		t.Errorf("%d pulls", pulls)
	}
}

// U2: a slow pull is no failure, however many there are; the operator calls it
// one after five minutes.
func TestSlowPullIsNotAFailure(t *testing.T) {
	w := &fakeNode{}
	w.server = &fakecri.Server{Pull: func(context.Context, string) error {
		for range 20 { // something arrives all the time
			w.staged.Add(1)
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	}}
	r := newReconciler(t, w, 4)
	r.Stall = 100 * time.Millisecond
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("%+v", s)
	}
	for _, s := range w.published {
		if s.Degraded() {
			t.Errorf("it was degraded in between: %+v", s.Conditions)
		}
	}
	if pulls, _ := w.server.Counts(); pulls != 4 {
		t.Errorf("%d pulls", pulls)
	}
}

// U2: 300 images and no space left: no more than those that are on their way are
// tried, and the operator's tests want it to be quick.
func TestNoSpaceStopsTheQueue(t *testing.T) {
	w := &fakeNode{server: &fakecri.Server{Pull: func(context.Context, string) error {
		return status.Error(codes.Unknown, "writing blob: write /var/tmp/x: no space left on device")
	}}}
	r := newReconciler(t, w, 300)
	start := time.Now()
	s := runPass(t, r)
	if pulls, _ := w.server.Counts(); pulls > 4 || time.Since(start) > 5*time.Second {
		t.Errorf("%d pulls in %v", pulls, time.Since(start))
	}
	if !s.Degraded() || len(s.Errors) != 1 || !strings.Contains(s.Errors[0], "no space left on device") {
		t.Errorf("%+v", s.Errors)
	}
	for _, img := range s.Images {
		if img.ErrorClass != runtime.Space {
			t.Fatalf("%+v", img)
		}
	}
}

// U2: credentials that are not there.
func TestManifestsWithoutCredentials(t *testing.T) {
	w := &fakeNode{
		server: &fakecri.Server{}, resolveErr: errors.New("credentials: stat /no/such/file: no such file or directory"),
	}
	s := runPass(t, newReconciler(t, w, 1))
	if pulls, _ := w.server.Counts(); pulls != 0 || !s.Degraded() ||
		!strings.Contains(s.Images[0].Error, "/no/such/file") {
		t.Errorf("%d pulls, %+v", pulls, s)
	}
}

// A runtime that cannot pin is left alone.
func TestUnsupportedRuntime(t *testing.T) {
	for release, want := range map[string]string{
		"1.30.9": "CRI-O 1.30.9 does not unpin when it reloads; it has to be 1.31 or newer", "1.31.0": "", "1.34.0-dev": "",
		"2.0.0": "", "main": "",
	} {
		w := &fakeNode{server: &fakecri.Server{Release: release}}
		s := runPass(t, newReconciler(t, w, 1))
		if said := strings.Join(s.Errors, " "); s.Healthy() != (want == "") || !strings.Contains(said, want) {
			t.Errorf("%s: %+v", release, s.Errors)
		}
		if pulls, _ := w.server.Counts(); want != "" && (pulls > 0 || w.pins != nil) {
			t.Errorf("%s: %d pulls, pins %v", release, pulls, w.pins)
		}
	}
}

// Nothing to do costs one list, however many images there are.
func TestPassWithoutChangesListsOnce(t *testing.T) {
	w := &fakeNode{server: &fakecri.Server{}}
	r := newReconciler(t, w, 50)
	runPass(t, r)
	_, before := w.server.Counts()
	runPass(t, r)
	if _, after := w.server.Counts(); after != before+1 {
		t.Errorf("%d lists", after-before)
	}
}

// At most so many pulls run at a time, and those that fail in between do not
// take the places of others.
func TestParallelPulls(t *testing.T) {
	var running, most atomic.Int32
	w := &fakeNode{}
	w.server = &fakecri.Server{Pull: func(_ context.Context, image string) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		time.Sleep(5 * time.Millisecond)
		if pulls, _ := w.server.Counts(); pulls < 10 {
			return status.Error(codes.Unknown, "connection reset by peer")
		}
		return nil
	}}
	r := newReconciler(t, w, 12)
	r.Parallel = 3
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("%+v", s.Errors)
	}
	if most.Load() != 3 {
		t.Errorf("%d pulls at a time", most.Load())
	}
}

// Two images with a layer that the node lacks are not pulled at a time: each
// would fetch it.
func TestSharedLayersAreFetchedOnce(t *testing.T) {
	var running, most, first atomic.Int32
	w := &fakeNode{sharedLayer: true}
	w.server = &fakecri.Server{Pull: func(context.Context, string) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		time.Sleep(30 * time.Millisecond) // the others have time to begin
		if first.Add(1) == 1 && running.Load() > 1 {
			t.Error("two pulls fetch one layer")
		}
		return nil
	}}
	if s := runPass(t, newReconciler(t, w, 6)); !s.Healthy() {
		t.Errorf("%+v", s.Errors)
	}
	if most.Load() < 2 {
		t.Error("once it is there, the others are still pulled one by one")
	}
}

// What was unpinned is not forgotten when CRI-O fails in between.
func TestUnpinnedSurvivesAListError(t *testing.T) {
	var down atomic.Bool
	w := &fakeNode{}
	w.server = &fakecri.Server{
		List: func() error {
			if down.Load() {
				return status.Error(codes.Unknown, "layer not known")
			}
			return nil
		},
		Pinned: w.isPinned,
	}
	r := newReconciler(t, w, 2)
	runPass(t, r)
	w.sets[0].Images = w.sets[0].Images[:1]
	if s := runPass(t, r); !s.Healthy() || len(s.Unpinned) != 1 {
		t.Fatalf("unpinned %v", s.Unpinned)
	}
	down.Store(true)
	if s := runPass(t, r); !s.Degraded() || len(s.Unpinned) != 1 || s.Images[0].State != runtime.Unknown {
		t.Errorf("unpinned %v, %v", s.Unpinned, s.Images)
	}
	down.Store(false)
	if s := runPass(t, r); !s.Healthy() || len(s.Unpinned) != 1 {
		t.Errorf("unpinned %v", s.Unpinned)
	}
}

// CRI-O that does not do as it was told, for no reason that anybody knows, is
// named as such.
func TestCRIODoesNotPin(t *testing.T) {
	w := &fakeNode{}
	w.server = &fakecri.Server{Pinned: func(string) bool { return false }}
	r := newReconciler(t, w, 1)
	r.PinTimeout = 50 * time.Millisecond
	if s := runPass(t, r); !s.Degraded() || !strings.Contains(strings.Join(s.Errors, " "),
		"the pins of CRI-O differ from the drop-in for 1 images, such as quay.io/x/image-000") {
		t.Errorf("got %q, want that the pins differ for one image", s.Errors)
	}
}

// Nothing arrives, whatever there is to fetch: the pull begins anew.
func TestStalledPullsAreRestarted(t *testing.T) {
	for name, shared := range map[string]bool{"a pull": false, "two of one layer": true} {
		w := &fakeNode{sharedLayer: shared}
		w.server = &fakecri.Server{Pull: func(ctx context.Context, _ string) error {
			if pulls, _ := w.server.Counts(); pulls > 2 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		r := newReconciler(t, w, 2)
		r.Stall = 100 * time.Millisecond
		if s := runPass(t, r); !s.Healthy() {
			t.Errorf("%s: %v", name, s.Errors)
		}
	}
}

// While a layer is unpacked nothing is fetched, but the store grows.
func TestUnpackingIsNotAStall(t *testing.T) {
	w := &fakeNode{}
	w.server = &fakecri.Server{Pull: func(context.Context, string) error {
		for range 30 {
			w.mu.Lock()
			w.space.Free -= 8 << 20
			w.mu.Unlock()
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	}}
	r := newReconciler(t, w, 1)
	r.Stall = 100 * time.Millisecond
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("%v", s.Errors)
	}
	if pulls, _ := w.server.Counts(); pulls != 1 {
		t.Errorf("%d pulls", pulls)
	}
}

// A registry that does not answer when it is asked for a manifest holds up its
// own image only, and not for long.
func TestManifestTimeout(t *testing.T) {
	w := &fakeNode{server: &fakecri.Server{}, hangingImage: "image-001"}
	r := newReconciler(t, w, 3)
	r.Stall = 50 * time.Millisecond
	s := runPass(t, r)
	for _, img := range s.Images {
		if bad := strings.Contains(img.Name, w.hangingImage); (img.State == runtime.Pinned) == bad ||
			bad && (img.ErrorClass != runtime.Network || !strings.Contains(img.Error, "stalls")) {
			t.Errorf("%+v", img)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if first := w.published[0]; first.Healthy() || first.Degraded() {
		t.Errorf("while it asks, it says %s", first.Summary())
	}
}

func TestInvalidOptions(t *testing.T) {
	for name, change := range map[string]func(*runtime.Options){
		"parallel":  func(o *runtime.Options) { o.Parallel = -1 },
		"stall":     func(o *runtime.Options) { o.Stall = -time.Second },
		"wait":      func(o *runtime.Options) { o.Wait = -time.Second },
		"retry":     func(o *runtime.Options) { o.Retry.First = -time.Second },
		"threshold": func(o *runtime.Options) { o.Limits.GCPercent = 101 },
	} {
		w := &fakeNode{server: &fakecri.Server{}}
		r := newReconciler(t, w, 1)
		change(&r.Options)
		if _, err := r.Pass(t.Context()); !errors.Is(err, runtime.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.Plan(t.Context()); !errors.Is(err, runtime.ErrOptions) {
			t.Errorf("%s: plan: %v", name, err)
		}
	}
}

// An end of the pass reaches the pulls that run.
func TestCancelReachesPulls(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	w := &fakeNode{server: &fakecri.Server{Pull: func(pull context.Context, _ string) error {
		cancel()
		<-pull.Done()
		close(ended)
		return pull.Err()
	}}}
	r := newReconciler(t, w, 1)
	if _, err := r.Pass(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the pull goes on")
	}
}
