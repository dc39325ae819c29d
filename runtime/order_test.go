package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/pinset"
)

// recordingNode is a world that writes down what it is asked for, and has the images that
// were pulled.
type recordingNode struct {
	*fakeNode
	calls  []string
	stored []string
	// storeLocks are the locks of read-only stores.
	storeLocks []pinset.Lock
}

func (j *recordingNode) record(call string) { j.calls = append(j.calls, call) }

func (j *recordingNode) Space(root string) (store, staging disk.Space, err error) {
	j.record("space")
	return j.fakeNode.Space(root)
}

func (j *recordingNode) Locks() (stores, beside []pinset.Lock, err error) {
	return j.storeLocks, nil, nil
}

func (j *recordingNode) Apply(ctx context.Context, images []pinset.Image) (bool, error) {
	j.record("pin")
	return j.fakeNode.Apply(ctx, images)
}

func (j *recordingNode) List(context.Context) (all []pinset.StoredImage, err error) {
	for _, name := range j.stored {
		all = append(all, pinset.StoredImage{ID: name, Names: []string{name}, Pinned: j.isPinned(name)})
	}
	return all, nil
}

func (j *recordingNode) Pull(_ context.Context, img pinset.Image) error {
	j.record("pull")
	j.stored = append(j.stored, img.String())
	return nil
}

func (j *recordingNode) Remove(_ context.Context, img pinset.Image) error {
	j.record("remove " + img.String())
	j.stored = slices.DeleteFunc(j.stored, func(name string) bool { return name == img.String() })
	return nil
}

// removed are the calls that remove images.
func (j *recordingNode) removed() []string {
	return slices.DeleteFunc(slices.Clone(j.calls), func(call string) bool { return !strings.HasPrefix(call, "remove ") })
}

func newRecordingNode(t *testing.T, n int) (*runtime.Reconciler, *recordingNode) {
	t.Helper()
	j := &recordingNode{fakeNode: &fakeNode{server: &fakecri.Server{}}}
	r := newReconciler(t, j.fakeNode, n)
	r.Images, r.Pins, r.Disk = j, j, j
	r.Parallel = 1 // one call after the other
	return r, j
}

// The space is checked before anything is touched, and an image is pinned before it is
// pulled: the kubelet never removes it in between.
func TestPassChecksSpaceThenPinsThenPulls(t *testing.T) {
	r, j := newRecordingNode(t, 2)
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("got %+v, want a healthy node", s)
	}
	want := []string{"space", "pin", "space", "pull", "space", "pull"} // others may take space meanwhile
	if calls := slices.Compact(slices.Clone(j.calls)); !slices.Equal(calls, want) {
		t.Errorf("got the calls %q, want %q", calls, want)
	}
}

// CRI-O would take nothing but a name from a read-only store, by a copy of its record.
func TestPruneKeepsImagesOfStores(t *testing.T) {
	r, j := newRecordingNode(t, 3)
	r.Prune = true
	runPass(t, r)
	images := j.sets[0].Images
	stored, dropped := images[1].String(), images[2].String()
	j.storeLocks = []pinset.Lock{{Images: []pinset.LockedImage{{Pin: stored}}}}
	j.sets[0].Images = images[:1]
	j.calls = nil
	runPass(t, r)
	if got, want := j.removed(), []string{"remove " + dropped}; !slices.Equal(got, want) {
		t.Errorf("got the calls %q, want %q: %s is in a store", got, want, stored)
	}
}

// An image that no set asked for may be wanted by one that cannot be read.
func TestPruneWaitsForASetThatCannotBeRead(t *testing.T) {
	r, j := newRecordingNode(t, 2)
	runPass(t, r)
	images := j.sets[0].Images
	j.sets[0].Images = images[:1]
	if s := runPass(t, r); len(s.Unpinned) != 1 {
		t.Fatalf("got %q unpinned, want %s", s.Unpinned, images[1])
	}
	r.Prune = true
	broken := errors.New("b.yaml cannot be read")
	r.Sets = func() ([]pinset.Set, error) { return j.sets, broken }
	runPass(t, r)
	if got := j.removed(); len(got) > 0 {
		t.Errorf("got the calls %q beside %q, want none", got, broken)
	}
	r.Sets = func() ([]pinset.Set, error) { return j.sets, nil }
	runPass(t, r)
	if got, want := j.removed(), []string{"remove " + images[1].String()}; !slices.Equal(got, want) {
		t.Errorf("got the calls %q, want %q", got, want)
	}
}

// An image that cannot be removed is told of; one that is gone all the same is not.
func TestPruneError(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone %v", gone), func(t *testing.T) {
			r, j := newRecordingNode(t, 2)
			r.Images, r.Prune = failingRemover{j, gone}, true
			var pruned []pinset.Image
			r.Hooks.Pruned = func(img pinset.Image) { pruned = append(pruned, img) }
			runPass(t, r)
			dropped := j.sets[0].Images[1]
			j.sets[0].Images = j.sets[0].Images[:1]
			s := runPass(t, r)
			if gone != s.Healthy() || gone != (len(pruned) == 1) {
				t.Errorf("got %v, pruned %v, want healthy %v", s.Errors, pruned, gone)
			}
			if !gone && !strings.Contains(strings.Join(s.Errors, ""), "remove "+dropped.String()) {
				t.Errorf("got %v, want that %s was not removed", s.Errors, dropped)
			}
		})
	}
}

// failingRemover complains about every image that it removes, and may keep it.
type failingRemover struct {
	*recordingNode
	removes bool
}

func (s failingRemover) Remove(ctx context.Context, img pinset.Image) error {
	if s.removes {
		_ = s.recordingNode.Remove(ctx, img) // which never fails
	}
	return errors.New("layer is in use")
}

// What a container uses stays, and what nobody can tell of.
func TestPruneKeepsImagesInUse(t *testing.T) {
	for name, c := range map[string]struct {
		used   func(name string) map[string]bool
		failed error
	}{
		"by a container":  {func(name string) map[string]bool { return map[string]bool{name: true} }, nil},
		"nobody can tell": {func(string) map[string]bool { return nil }, errors.New("CRI-O does not answer")},
	} {
		t.Run(name, func(t *testing.T) {
			r, j := newRecordingNode(t, 2)
			r.Prune = true
			runPass(t, r)
			dropped := j.sets[0].Images[1].String()
			r.Runtime = imagesInUse{r.Runtime, c.used(dropped), c.failed}
			j.sets[0].Images = j.sets[0].Images[:1]
			s := runPass(t, r)
			if got := j.removed(); len(got) > 0 || s.Healthy() != (c.failed == nil) {
				t.Errorf("got the calls %q, %v, want none", got, s.Errors)
			}
		})
	}
}

// imagesInUse is a runtime whose containers have images.
type imagesInUse struct {
	runtime.Runtime
	used   map[string]bool
	failed error
}

func (u imagesInUse) ImagesInUse(context.Context) (map[string]bool, error) { return u.used, u.failed }

// CRI-O finds an image of a store by its digest, and pins by names: it pulls the name.
func TestImageUnderAnotherNameIsPulled(t *testing.T) {
	r, j := newRecordingNode(t, 2)
	images := j.sets[0].Images
	j.stored = []string{images[0].String(), images[1].String()}
	r.Images = unpinnedFirst{j}
	r.PinTimeout = 50 * time.Millisecond
	runPass(t, r)
	if got := slices.DeleteFunc(slices.Clone(j.calls), func(call string) bool { return call != "pull" }); len(got) != 1 {
		t.Errorf("got %d pulls, want that of the image that is not pinned", len(got))
	}
}

// unpinnedFirst is a runtime that pins all images but the first.
type unpinnedFirst struct{ *recordingNode }

func (m unpinnedFirst) List(ctx context.Context) ([]pinset.StoredImage, error) {
	all, err := m.recordingNode.List(ctx)
	all[0].Pinned = false
	return all, err
}
