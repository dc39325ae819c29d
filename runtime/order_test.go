package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/pinset"
)

// recordingNode is a fakeNode that records calls, and lists the images that were pulled.
type recordingNode struct {
	*fakeNode
	calls  []string
	stored []string
	// storeLocks are the locks of read-only stores.
	storeLocks []pinset.Lock
}

func (node *recordingNode) record(call string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.calls = append(node.calls, call)
}

func (node *recordingNode) Space(root string) (store, staging disk.Space, err error) {
	node.record("space")
	return node.fakeNode.Space(root)
}

func (node *recordingNode) Locks() (stores, beside []pinset.Lock, err error) {
	return node.storeLocks, nil, nil
}

func (node *recordingNode) Apply(ctx context.Context, images []pinset.Image) (bool, error) {
	node.record("pin")
	return node.fakeNode.Apply(ctx, images)
}

func (node *recordingNode) List(context.Context) (all []pinset.StoredImage, err error) {
	for _, name := range node.stored {
		all = append(all, pinset.StoredImage{ID: name, Names: []string{name}, Pinned: node.isPinned(name)})
	}
	return all, nil
}

func (node *recordingNode) Pull(_ context.Context, img pinset.Image) error {
	node.record("pull")
	node.mu.Lock()
	defer node.mu.Unlock()
	node.stored = append(node.stored, img.String())
	return nil
}

func (node *recordingNode) Remove(_ context.Context, img pinset.Image) error {
	node.record("remove " + img.String())
	node.stored = slices.DeleteFunc(node.stored, func(name string) bool { return name == img.String() })
	return nil
}

// removed are the calls that remove images.
func (node *recordingNode) removed() []string {
	return slices.DeleteFunc(slices.Clone(node.calls), func(call string) bool { return !strings.HasPrefix(call, "remove ") })
}

func newRecordingNode(t *testing.T, n int) (*runtime.Reconciler, *recordingNode) {
	t.Helper()
	node := &recordingNode{fakeNode: &fakeNode{server: &fakecri.Server{}}}
	r := newReconciler(t, node.fakeNode, n)
	r.Images, r.Pins, of(r).conf.Disk = node, node, node
	options(r).Parallel = 1 // for an order of calls
	return r, node
}

// The space is checked before anything is changed, and an image is pinned before it is pulled, so
// that the kubelet does not remove it in between.
func TestPassChecksSpaceThenPinsThenPulls(t *testing.T) {
	r, node := newRecordingNode(t, 2)
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("got %+v, want a healthy node", s)
	}
	// The space is checked again before each pull, and measured for the status.
	want := []string{"space", "pin", "space", "pull", "space", "pull", "space"}
	if calls := slices.Compact(slices.Clone(node.calls)); !slices.Equal(calls, want) {
		t.Errorf("got the calls %q, want %q", calls, want)
	}
}

// Images of read-only stores are not removed: CRI-O would only copy their record, without the name.
func TestPruneKeepsImagesOfStores(t *testing.T) {
	r, node := newRecordingNode(t, 3)
	options(r).Prune = true
	runPass(t, r)
	images := node.sets[0].Images
	stored, dropped := images[1].String(), images[2].String()
	node.storeLocks = []pinset.Lock{{Images: []pinset.LockedImage{{Pin: stored}}}}
	node.sets[0].Images = images[:1]
	node.calls = nil
	runPass(t, r)
	if got, want := node.removed(), []string{"remove " + dropped}; !slices.Equal(got, want) {
		t.Errorf("got the calls %q, want %q: %s is in a store", got, want, stored)
	}
}

// The pass that asked CRI-O for an image was killed, and CRI-O brought it after two passes that had no use for it any
// more: it stayed for ever. After an hour, an image of that name is somebody else's.
func TestPullThatEndsLate(t *testing.T) {
	for name, c := range map[string]struct {
		after   time.Duration
		removed int
	}{"soon": {time.Second, 1}, "much later": {2 * time.Hour, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, node := newRecordingNode(t, 2)
				options(r).Prune = true
				images := node.sets[0].Images
				node.pins = images // by the killed pass
				node.sets[0].Images = images[:1]
				for range 2 {
					if s := runPass(t, r); !s.Healthy() || len(s.Unpinned) != 0 || len(s.LatePulls) != 1 {
						t.Errorf("got %v, %v unpinned and %v late, want one late", s.Errors, s.Unpinned, s.LatePulls)
					}
				}
				time.Sleep(c.after)
				runPass(t, r)
				node.stored = append(node.stored, images[1].String())
				s := runPass(t, r)
				if got := node.removed(); len(got) != c.removed || len(s.Unpinned)+len(s.LatePulls) != 0 {
					t.Errorf("got %q, %v unpinned and %v late, want %d removed and none", got, s.Unpinned, s.LatePulls, c.removed)
				}
			})
		})
	}
}

// killedBefore are pins of which a pass is killed before it applies them.
type killedBefore struct{ runtime.Pins }

func (killedBefore) Apply(context.Context, []pinset.Image) (bool, error) {
	return false, context.Canceled
}

// A set had an image again, and the pass was killed before the drop-in had it; then the set had it no more. A bug was
// that the image stayed for ever: the status had forgotten it, and the drop-in never had it.
func TestImageThatASetHadForAMoment(t *testing.T) {
	r, node := newRecordingNode(t, 2)
	runPass(t, r)
	images := node.sets[0].Images
	node.sets[0].Images = images[:1]
	if s := runPass(t, r); len(s.Unpinned) != 1 {
		t.Fatalf("got %v unpinned, want one", s.Unpinned)
	}
	pins := r.Pins
	r.Pins, node.sets[0].Images = killedBefore{pins}, images
	if s := runPass(t, r); len(s.Unpinned) != 0 {
		t.Errorf("got %v unpinned, which a set has", s.Unpinned)
	}
	r.Pins, node.sets[0].Images = pins, images[:1]
	options(r).Prune = true
	s := runPass(t, r)
	if got := node.removed(); len(got) != 1 || len(s.Unpinned)+len(s.LatePulls) != 0 {
		t.Errorf("got %q, %v unpinned and %v late, want one removed and none", got, s.Unpinned, s.LatePulls)
	}
}

// While a set cannot be read, no image is removed, since that set may ask for it.
func TestPruneWaitsForASetThatCannotBeRead(t *testing.T) {
	r, node := newRecordingNode(t, 2)
	runPass(t, r)
	images := node.sets[0].Images
	node.sets[0].Images = images[:1]
	if s := runPass(t, r); len(s.Unpinned) != 1 {
		t.Fatalf("got %q unpinned, want %s", s.Unpinned, images[1])
	}
	options(r).Prune = true
	broken := errors.New("b.yaml cannot be read")
	of(r).sets = func() ([]pinset.Set, error) { return node.sets, broken }
	runPass(t, r)
	if got := node.removed(); len(got) > 0 {
		t.Errorf("with the error %q: got the calls %q, want none", broken, got)
	}
	of(r).sets = func() ([]pinset.Set, error) { return node.sets, nil }
	runPass(t, r)
	if got, want := node.removed(), []string{"remove " + images[1].String()}; !slices.Equal(got, want) {
		t.Errorf("got the calls %q, want %q", got, want)
	}
}

// An error of a removal is reported if the image is still there, and ignored if it was removed.
func TestPruneError(t *testing.T) {
	for _, removes := range []bool{false, true} {
		t.Run(fmt.Sprintf("removed %v", removes), func(t *testing.T) {
			r, node := newRecordingNode(t, 2)
			r.Images, options(r).Prune = failingRemover{node, removes}, true
			var pruned []any
			on(r, "removed", func(e event) { pruned = append(pruned, e.attr("image")) })
			runPass(t, r)
			dropped := node.sets[0].Images[1]
			node.sets[0].Images = node.sets[0].Images[:1]
			s := runPass(t, r)
			if removes != s.Healthy() || removes != (len(pruned) == 1) {
				t.Errorf("got %v, pruned %v, want healthy %v", s.Errors, pruned, removes)
			}
			if !removes && !strings.Contains(strings.Join(s.Errors, ""), "remove "+dropped.String()) {
				t.Errorf("got %v, want an error for %s", s.Errors, dropped)
			}
		})
	}
}

// failingRemover returns an error for every image; with removes, it removes the image all the same.
type failingRemover struct {
	*recordingNode
	removes bool
}

func (s failingRemover) Remove(ctx context.Context, img pinset.Image) error {
	if s.removes {
		_ = s.recordingNode.Remove(ctx, img) // always nil
	}
	return errors.New("layer is in use")
}

// An image that a container uses is not removed, and none is if the containers cannot be listed.
func TestPruneKeepsImagesInUse(t *testing.T) {
	for name, c := range map[string]struct {
		used   func(name string) map[string]bool
		failed error
	}{
		"used by a container":    {func(name string) map[string]bool { return map[string]bool{name: true} }, nil},
		"containers are unknown": {func(string) map[string]bool { return nil }, errors.New("CRI-O does not answer")},
	} {
		t.Run(name, func(t *testing.T) {
			r, node := newRecordingNode(t, 2)
			options(r).Prune = true
			runPass(t, r)
			dropped := node.sets[0].Images[1].String()
			r.Runtime = imagesInUse{r.Runtime, c.used(dropped), c.failed}
			node.sets[0].Images = node.sets[0].Images[:1]
			s := runPass(t, r)
			if got := node.removed(); len(got) > 0 || s.Healthy() != (c.failed == nil) {
				t.Errorf("got the calls %q, errors %v, want no calls, error %v", got, s.Errors, c.failed)
			}
		})
	}
}

// imagesInUse is a runtime whose containers use these images.
type imagesInUse struct {
	runtime.Runtime
	used   map[string]bool
	failed error
}

func (u imagesInUse) ImagesInUse(context.Context) (map[string]bool, error) { return u.used, u.failed }

// CRI-O finds an image by its digest, but pins it by its name: an image with another name is
// pulled, which adds the name.
func TestImageUnderAnotherNameIsPulled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, node := newRecordingNode(t, 2)
		images := node.sets[0].Images
		node.stored = []string{images[0].String(), images[1].String()}
		r.Images = unpinnedFirst{node}
		options(r).PinTimeout = 50 * time.Millisecond
		runPass(t, r)
		if got := slices.DeleteFunc(slices.Clone(node.calls), func(call string) bool { return call != "pull" }); len(got) != 1 {
			t.Errorf("got %d pulls, want 1, of the image that is not pinned", len(got))
		}
	})
}

// unpinnedFirst lists the first image as not pinned.
type unpinnedFirst struct{ *recordingNode }

func (m unpinnedFirst) List(ctx context.Context) ([]pinset.StoredImage, error) {
	all, err := m.recordingNode.List(ctx)
	all[0].Pinned = false
	return all, err
}
