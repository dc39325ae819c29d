package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/pinset"
)

// fakeNode implements what a reconciler needs of a node, with enough space. Its container runtime
// is a fake one, which can return any error.
type fakeNode struct {
	server       *fakecri.Server
	sets         []pinset.Set
	pins         []pinset.Image
	stored       []pinset.StoredImage // in read-only stores
	storedErr    error                // of reading them
	space        disk.Space
	staged       atomic.Int64
	resolveErr   error  // of every request for a manifest
	sharedLayer  bool   // all images have a common layer
	hangingImage string // the request for its manifest is never answered

	mu        sync.Mutex
	published []runtime.Status
	news      chan struct{} // has a value after a status was published
}

func (node *fakeNode) Current() ([]pinset.Image, bool, func(string) bool, error) {
	return node.pins, true, nil, nil
}
func (node *fakeNode) Check([]pinset.Image) error                       { return nil }
func (node *fakeNode) Refusal(context.Context) error                    { return nil }
func (node *fakeNode) Locks() (stores, beside []pinset.Lock, err error) { return nil, nil, nil }
func (node *fakeNode) Images() ([]pinset.StoredImage, error)            { return node.stored, node.storedErr }
func (node *fakeNode) Layers(string) (pinset.Layers, error)             { return pinset.Layers{}, nil }
func (node *fakeNode) InUse(string) (map[string]bool, error)            { return map[string]bool{}, nil }
func (node *fakeNode) Staged() int64                                    { return node.staged.Load() }
func (node *fakeNode) Forget()                                          {}

func (node *fakeNode) Apply(_ context.Context, images []pinset.Image) (bool, error) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.pins = images
	return true, nil
}

// isPinned reports whether a name is among the pins that were applied.
func (node *fakeNode) isPinned(name string) bool {
	node.mu.Lock()
	defer node.mu.Unlock()
	return slices.ContainsFunc(node.pins, func(img pinset.Image) bool { return img.String() == name })
}

func (node *fakeNode) Space(root string) (store, staging disk.Space, err error) {
	node.mu.Lock()
	defer node.mu.Unlock()
	return node.space, disk.Space{Device: 1, Total: 1 << 40, Free: 1 << 40}, nil
}

func (node *fakeNode) Resolve(ctx context.Context, img pinset.Image) (pinset.LockedImage, error) {
	if node.hangingImage != "" && strings.Contains(img.Repository, node.hangingImage) {
		<-ctx.Done()
		return pinset.LockedImage{}, ctx.Err()
	}
	if node.resolveErr != nil {
		return pinset.LockedImage{}, node.resolveErr
	}
	layers := []*pinset.LockedLayer{{Digest: img.Digest, Size: 1000}}
	if node.sharedLayer {
		layers = append([]*pinset.LockedLayer{{Digest: digest.FromString("shared"), Size: 1000}}, layers...)
	}
	return pinset.LockedImage{Pin: img.String(), Layers: layers}, nil
}

func (node *fakeNode) publish(s runtime.Status) error {
	if s.Progress != nil { // the pass goes on to change it
		p := *s.Progress
		s.Progress = &p
	}
	node.mu.Lock()
	defer node.mu.Unlock()
	node.published = append(node.published, s)
	select {
	case node.news <- struct{}{}:
	default:
	}
	return nil
}

// direct calls a container runtime without a connection, so that a test can run in a bubble of synctest.
type direct struct{ server *fakecri.Server }

func (d direct) Version(context.Context) (name, version string, err error) {
	return d.server.Name, d.server.Release, nil
}
func (d direct) GraphRoot(context.Context) (string, error)            { return d.server.Root, nil }
func (d direct) PauseImage(context.Context) (string, error)           { return "", nil }
func (d direct) ImagesInUse(context.Context) (map[string]bool, error) { return map[string]bool{}, nil }

func (d direct) List(ctx context.Context) (stored []pinset.StoredImage, err error) {
	list, err := d.server.ListImages(ctx, &criapi.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	for _, img := range list.Images {
		stored = append(stored, pinset.StoredImage{ID: img.Id, Names: img.RepoDigests, Pinned: img.Pinned})
	}
	return stored, nil
}

func (d direct) Pull(ctx context.Context, img pinset.Image) error {
	_, err := d.server.PullImage(ctx, &criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: img.String()}})
	return err
}

func (d direct) Remove(ctx context.Context, img pinset.Image) error {
	_, err := d.server.RemoveImage(ctx, &criapi.RemoveImageRequest{Image: &criapi.ImageSpec{Image: img.String()}})
	return err
}

// newReconciler makes a reconciler of the node, with a set of n images.
func newReconciler(t *testing.T, node *fakeNode, n int) *runtime.Reconciler {
	t.Helper()
	node.server.Name, node.server.Root = "cri-o", t.TempDir()
	if node.server.Release == "" {
		node.server.Release = "1.34.0"
	}
	node.news = make(chan struct{}, 1)
	client := direct{node.server}
	set := pinset.Set{Name: "s"}
	for i := range n {
		name := fmt.Sprintf("quay.io/x/image-%03d", i)
		set.Images = append(set.Images, pinset.Image{Repository: name, Digest: digest.FromString(name)})
	}
	node.sets = []pinset.Set{set}
	node.space = disk.Space{Total: 1 << 40, Free: 1 << 40}
	return &runtime.Reconciler{
		Runtime: client, Images: client, Pins: node,
		Node: &machine{
			conf: runtime.Configuration{Manifests: node, Disk: node, Options: runtime.Options{
				Node: "node12", Retry: runtime.Retry{First: time.Millisecond}, PublishInterval: 10 * time.Millisecond,
				Wait: 5 * time.Second,
			}},
			sets: func() ([]pinset.Set, error) { return node.sets, nil }, publish: node.publish,
		},
	}
}

// machine is the node of a reconciler, and its stores. A test may replace each part.
type machine struct {
	conf      runtime.Configuration
	configErr error
	sets      func() ([]pinset.Set, error)
	publish   func(runtime.Status) error
	stores    func() (runtime.StoresState, error)
	take      func(context.Context, string) error
}

func (m *machine) Configure(context.Context) (runtime.Configuration, error) {
	return m.conf, m.configErr
}
func (m *machine) Sets() ([]pinset.Set, error)                 { return m.sets() }
func (m *machine) Publish(s runtime.Status) error              { return m.publish(s) }
func (m *machine) Take(ctx context.Context, name string) error { return m.take(ctx, name) }

func (m *machine) Reconcile(context.Context) (runtime.StoresState, error) {
	if m.stores == nil {
		return runtime.StoresState{}, nil
	}
	return m.stores()
}

// of returns the node of a reconciler.
func of(r *runtime.Reconciler) *machine { return r.Node.(*machine) }

// options returns those of the passes of a reconciler.
func options(r *runtime.Reconciler) *runtime.Options { return &of(r).conf.Options }

// event is a line of a reconciler's log, with its attributes.
type event struct{ record slog.Record }

// attr is the value of an attribute.
func (e event) attr(key string) (value any) {
	e.record.Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			value = a.Value.Any()
		}
		return true
	})
	return value
}

// events is a handler that calls a function for each line.
type events func(event)

func (events) Enabled(context.Context, slog.Level) bool { return true }
func (e events) WithAttrs([]slog.Attr) slog.Handler     { return e }
func (e events) WithGroup(string) slog.Handler          { return e }
func (e events) Handle(_ context.Context, r slog.Record) error {
	e(event{r})
	return nil
}

// on calls a function for each line of the log with this message.
func on(r *runtime.Reconciler, message string, do func(event)) {
	r.Log = slog.New(events(func(e event) {
		if e.record.Message == message {
			do(e)
		}
	}))
}

// connect makes a reconciler call the container runtime over a connection.
func connect(t *testing.T, r *runtime.Reconciler, node *fakeNode) {
	t.Helper()
	node.server.Start(t)
	client, err := cri.Dial(node.server.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	r.Runtime, r.Images = client, client
}

func runPass(t *testing.T, r *runtime.Reconciler) runtime.Status {
	t.Helper()
	s, err := r.Pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An image is pulled once, as in TestPrefetchImageSets of the Machine Config Operator.
func TestImageIsPulledOnce(t *testing.T) {
	node := &fakeNode{server: &fakecri.Server{}}
	r := newReconciler(t, node, 1)
	connect(t, r, node)
	for n := range 2 {
		if s := runPass(t, r); !s.Healthy() {
			t.Errorf("pass %d: got %+v, want a healthy node", n+1, s)
		}
	}
	if pulls, _ := node.server.Counts(); pulls != 1 {
		t.Errorf("got %d pulls, want 1", pulls)
	}
}

// Slow pulls do not make the node degraded. The Machine Config Operator reports a failure after
// five minutes.
func TestSlowPullIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		node.server = &fakecri.Server{Pull: func(context.Context, string) error {
			for range 20 { // bytes arrive all the time
				node.staged.Add(1)
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}}
		r := newReconciler(t, node, 4)
		options(r).Stall = 100 * time.Millisecond
		if s := runPass(t, r); !s.Healthy() {
			t.Errorf("got %+v, want a healthy node", s)
		}
		for _, s := range node.published {
			if s.Degraded() {
				t.Errorf("during the pulls: got %+v, want no degraded node", s.Conditions)
			}
		}
		if pulls, _ := node.server.Counts(); pulls != 4 {
			t.Errorf("got %d pulls, want 4", pulls)
		}
	})
}

// With 300 images and no space left, only the pulls that run already are attempted, and the pass
// ends soon, as the tests of the Machine Config Operator demand.
func TestNoSpaceStopsTheQueue(t *testing.T) {
	node := &fakeNode{server: &fakecri.Server{Pull: func(context.Context, string) error {
		return status.Error(codes.Unknown, "writing blob: write /var/tmp/x: no space left on device")
	}}}
	r := newReconciler(t, node, 300)
	s := runPass(t, r)
	if pulls, _ := node.server.Counts(); pulls > 4 {
		t.Errorf("got %d pulls, want at most 4", pulls)
	}
	if !s.Degraded() || len(s.Errors) != 1 || !strings.Contains(s.Errors[0], "no space left on device") {
		t.Errorf("got %q, want only that no space is left", s.Errors)
	}
	for _, img := range s.Images {
		if img.ErrorClass != runtime.Space {
			t.Fatalf("got %+v, want an error of class %s", img, runtime.Space)
		}
	}
}

// With a CRI-O that cannot pin as pinbox needs it, a pass changes nothing.
func TestUnsupportedRuntime(t *testing.T) {
	for release, want := range map[string]string{
		"1.30.9": "CRI-O 1.30.9 does not unpin when it reloads; it has to be 1.31 or newer", "1.31.0": "", "1.34.0-dev": "",
		"2.0.0": "", "main": "",
	} {
		t.Run(release, func(t *testing.T) {
			node := &fakeNode{server: &fakecri.Server{Release: release}}
			s := runPass(t, newReconciler(t, node, 1))
			if got := strings.Join(s.Errors, " "); s.Healthy() != (want == "") || !strings.Contains(got, want) {
				t.Errorf("got healthy %v, errors %q, want %q", s.Healthy(), got, want)
			}
			if pulls, _ := node.server.Counts(); want != "" && (pulls > 0 || node.pins != nil) {
				t.Errorf("got %d pulls, pins %v, want none", pulls, node.pins)
			}
		})
	}
}

// A pass with nothing to do lists the images once.
func TestPassWithoutChangesListsOnce(t *testing.T) {
	node := &fakeNode{server: &fakecri.Server{}}
	r := newReconciler(t, node, 50)
	runPass(t, r)
	_, before := node.server.Counts()
	runPass(t, r)
	if _, after := node.server.Counts(); after != before+1 {
		t.Errorf("got %d lists, want 1", after-before)
	}
}

// At most Parallel pulls run at a time. A failed pull that waits for its next attempt does not
// count.
func TestParallelPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		node := &fakeNode{}
		node.server = &fakecri.Server{Pull: func(_ context.Context, image string) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(5 * time.Millisecond)
			if pulls, _ := node.server.Counts(); pulls < 10 {
				return status.Error(codes.Unknown, "connection reset by peer")
			}
			return nil
		}}
		r := newReconciler(t, node, 12)
		options(r).Parallel = 3
		if s := runPass(t, r); !s.Healthy() {
			t.Errorf("got %q, want a healthy node", s.Errors)
		}
		if most.Load() != 3 {
			t.Errorf("got %d pulls at a time, want 3", most.Load())
		}
	})
}

// Two images that share a missing layer are not pulled at the same time: CRI-O would fetch the
// layer twice.
func TestSharedLayersAreFetchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, first atomic.Int32
		node := &fakeNode{sharedLayer: true}
		node.server = &fakecri.Server{Pull: func(context.Context, string) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(30 * time.Millisecond) // the others have time to begin
			if first.Add(1) == 1 && running.Load() > 1 {
				t.Error("got two pulls that fetch one layer, want one")
			}
			return nil
		}}
		if s := runPass(t, newReconciler(t, node, 6)); !s.Healthy() {
			t.Errorf("got %q, want a healthy node", s.Errors)
		}
		if got := most.Load(); got < 2 {
			t.Errorf("once the layer is in the store: got %d pulls at a time, want more", got)
		}
	})
}

// A pass in which CRI-O fails to list images keeps the unpinned images of the status.
func TestUnpinnedSurvivesAListError(t *testing.T) {
	var down atomic.Bool
	node := &fakeNode{}
	node.server = &fakecri.Server{
		List: func() error {
			if down.Load() {
				return status.Error(codes.Unknown, "layer not known")
			}
			return nil
		},
		Pinned: node.isPinned,
	}
	r := newReconciler(t, node, 2)
	connect(t, r, node)
	runPass(t, r)
	node.sets[0].Images = node.sets[0].Images[:1]
	if s := runPass(t, r); !s.Healthy() || len(s.Unpinned) != 1 {
		t.Fatalf("got %v, unpinned %v, want a healthy node and one unpinned image", s.Errors, s.Unpinned)
	}
	down.Store(true)
	if s := runPass(t, r); !s.Degraded() || len(s.Unpinned) != 1 || s.Images[0].State != runtime.Unknown {
		t.Errorf("without a list: got unpinned %v, %v, want one image and an unknown state", s.Unpinned, s.Images)
	}
	down.Store(false)
	if s := runPass(t, r); !s.Healthy() || len(s.Unpinned) != 1 {
		t.Errorf("with a list again: got %v, unpinned %v, want one image", s.Errors, s.Unpinned)
	}
}

// stopper is an image of the main store for which the runtime can list none, by its error.
type stopper struct{ err error }

func (stopper) Images() ([]pinset.StoredImage, error) { return nil, nil }
func (s stopper) Broken(string) error                 { return s.err }

// While CRI-O can list no image, a pass says which one stops it, and pins all the same.
func TestImageThatStopsTheList(t *testing.T) {
	node := &fakeNode{server: &fakecri.Server{List: func() error { return status.Error(codes.Unknown, "layer not known") }}}
	r := newReconciler(t, node, 1)
	of(r).conf.Aside = stopper{errors.New("quay.io/x/old needs a store that is not there")}
	s := runPass(t, r)
	for _, want := range []string{"layer not known", "quay.io/x/old needs a store that is not there"} {
		if !strings.Contains(strings.Join(s.Errors, "\n"), want) {
			t.Errorf("got the errors %q, want %q", s.Errors, want)
		}
	}
	if pin := node.sets[0].Images[0].String(); !node.isPinned(pin) {
		t.Errorf("got no pin %s, want it", pin)
	}
}

// If CRI-O does not pin the images after a reload, and no conflict is found, the status reports
// that its pins differ.
func TestCRIODoesNotPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		node.server = &fakecri.Server{Pinned: func(string) bool { return false }}
		r := newReconciler(t, node, 1)
		options(r).PinTimeout = 50 * time.Millisecond
		if s := runPass(t, r); !s.Degraded() || !strings.Contains(strings.Join(s.Errors, " "),
			"the pins of CRI-O differ from the drop-in for 1 images, such as quay.io/x/image-000") {
			t.Errorf("got %q, want that the pins differ for one image", s.Errors)
		}
	})
}

// A pull that receives nothing is cancelled and started again.
func TestStalledPullsAreRestarted(t *testing.T) {
	for name, shared := range map[string]bool{"a pull": false, "two pulls with a common layer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := &fakeNode{sharedLayer: shared}
				node.server = &fakecri.Server{Pull: func(ctx context.Context, _ string) error {
					if pulls, _ := node.server.Counts(); pulls > 2 {
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}}
				r := newReconciler(t, node, 2)
				options(r).Stall = 100 * time.Millisecond
				on(r, "pull failed", func(e event) {
					f := runtime.Fault{Class: e.attr("class").(runtime.Class), Text: e.attr("error").(string)}
					if want := (runtime.Fault{Class: runtime.Network, Text: "the registry stalls: connection stalled"}); f != want {
						t.Errorf("got the fault %+v, want %+v", f, want)
					}
				})
				if s := runPass(t, r); !s.Healthy() {
					t.Errorf("got %v, want a healthy node", s.Errors)
				}
			})
		})
	}
}

// While a layer is unpacked, no bytes are fetched, but the store grows.
func TestUnpackingIsNotAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		node.server = &fakecri.Server{Pull: func(context.Context, string) error {
			for range 30 {
				node.mu.Lock()
				node.space.Free -= 8 << 20
				node.mu.Unlock()
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}}
		r := newReconciler(t, node, 1)
		options(r).Stall = 100 * time.Millisecond
		if s := runPass(t, r); !s.Healthy() {
			t.Errorf("got %v, want a healthy node", s.Errors)
		}
		if pulls, _ := node.server.Counts(); pulls != 1 {
			t.Errorf("got %d pulls, want 1", pulls)
		}
	})
}

// A registry that does not answer a request for a manifest delays the pass up to the time limit. CRI-O is then
// asked to pull the image.
func TestManifestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{server: &fakecri.Server{}, hangingImage: "image-001"}
		r := newReconciler(t, node, 3)
		options(r).Stall = 50 * time.Millisecond
		s := runPass(t, r)
		for _, img := range s.Images {
			if img.State != runtime.Pinned {
				t.Errorf("got %+v, want it pinned: CRI-O reaches the registry", img)
			}
		}
		node.mu.Lock()
		defer node.mu.Unlock()
		if first := node.published[0]; first.Healthy() || first.Degraded() {
			t.Errorf("during the request: got %s, want a node that is neither healthy nor degraded", first.Summary())
		}
	})
}

func TestInvalidOptions(t *testing.T) {
	for name, change := range map[string]func(*runtime.Options){
		"parallel":  func(o *runtime.Options) { o.Parallel = -1 },
		"stall":     func(o *runtime.Options) { o.Stall = -time.Second },
		"wait":      func(o *runtime.Options) { o.Wait = -time.Second },
		"retry":     func(o *runtime.Options) { o.Retry.First = -time.Second },
		"threshold": func(o *runtime.Options) { o.Limits.GCPercent = 101 },
	} {
		t.Run(name, func(t *testing.T) {
			node := &fakeNode{server: &fakecri.Server{}}
			r := newReconciler(t, node, 1)
			change(options(r))
			if _, err := r.Pass(t.Context()); !errors.Is(err, runtime.ErrOptions) {
				t.Errorf("pass: got %v, want %v", err, runtime.ErrOptions)
			}
			if _, err := r.Plan(t.Context()); !errors.Is(err, runtime.ErrOptions) {
				t.Errorf("plan: got %v, want %v", err, runtime.ErrOptions)
			}
		})
	}
}

// Cancelling a pass cancels its running pulls, over a connection.
func TestCancelReachesPulls(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	node := &fakeNode{server: &fakecri.Server{Pull: func(pull context.Context, _ string) error {
		cancel()
		<-pull.Done()
		close(ended)
		return pull.Err()
	}}}
	r := newReconciler(t, node, 1)
	connect(t, r, node)
	if _, err := r.Pass(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	fixtures.Receive(t, "end of the pull", ended)
}
