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

// journal is a world that writes down what it is asked for, and has the images that
// were pulled.
type journal struct {
	*world
	calls  []string
	images []string
	// stores are the locks of read-only stores.
	stores []pinset.Lock
}

func (j *journal) note(call string) { j.calls = append(j.calls, call) }

func (j *journal) Space(root string) (store, staging disk.Space, err error) {
	j.note("space")
	return j.world.Space(root)
}

func (j *journal) Locks() (stores, beside []pinset.Lock, err error) { return j.stores, nil, nil }

func (j *journal) Apply(ctx context.Context, images []pinset.Image) (bool, error) {
	j.note("pin")
	return j.world.Apply(ctx, images)
}

func (j *journal) List(context.Context) (all []pinset.StoredImage, err error) {
	for _, name := range j.images {
		all = append(all, pinset.StoredImage{ID: name, Names: []string{name}, Pinned: j.pinned(name)})
	}
	return all, nil
}

func (j *journal) Pull(_ context.Context, img pinset.Image) error {
	j.note("pull")
	j.images = append(j.images, img.String())
	return nil
}

func (j *journal) Remove(_ context.Context, img pinset.Image) error {
	j.note("remove " + img.String())
	j.images = slices.DeleteFunc(j.images, func(name string) bool { return name == img.String() })
	return nil
}

// removed are the calls that remove images.
func (j *journal) removed() []string {
	return slices.DeleteFunc(slices.Clone(j.calls), func(call string) bool { return !strings.HasPrefix(call, "remove ") })
}

func journaled(t *testing.T, n int) (*runtime.Reconciler, *journal) {
	t.Helper()
	j := &journal{world: &world{server: &fakecri.Server{}}}
	r := reconciler(t, j.world, n)
	r.Images, r.Pins, r.Disk = j, j, j
	r.Parallel = 1 // one call after the other
	return r, j
}

// The space is checked before anything is touched, and an image is pinned before it is
// pulled: the kubelet never removes it in between.
func TestPassChecksSpaceThenPinsThenPulls(t *testing.T) {
	r, j := journaled(t, 2)
	if s := pass(t, r); !s.Healthy() {
		t.Errorf("got %+v, want a healthy node", s)
	}
	want := []string{"space", "pin", "space", "pull", "space", "pull"} // others may take space meanwhile
	if calls := slices.Compact(slices.Clone(j.calls)); !slices.Equal(calls, want) {
		t.Errorf("got the calls %q, want %q", calls, want)
	}
}

// CRI-O would take nothing but a name from a read-only store, by a copy of its record.
func TestPruneLeavesImagesOfStores(t *testing.T) {
	r, j := journaled(t, 3)
	r.Prune = true
	pass(t, r)
	images := j.sets[0].Images
	stored, dropped := images[1].String(), images[2].String()
	j.stores = []pinset.Lock{{Images: []pinset.LockedImage{{Pin: stored}}}}
	j.sets[0].Images = images[:1]
	j.calls = nil
	pass(t, r)
	if got, want := j.removed(), []string{"remove " + dropped}; !slices.Equal(got, want) {
		t.Errorf("got the calls %q, want %q: %s is in a store", got, want, stored)
	}
}

// An image that no set asked for may be wanted by one that cannot be read.
func TestPruneWaitsForASetThatCannotBeRead(t *testing.T) {
	r, j := journaled(t, 2)
	pass(t, r)
	images := j.sets[0].Images
	j.sets[0].Images = images[:1]
	if s := pass(t, r); len(s.Unpinned) != 1 {
		t.Fatalf("got %q unpinned, want %s", s.Unpinned, images[1])
	}
	r.Prune = true
	broken := errors.New("b.yaml cannot be read")
	r.Sets = func() ([]pinset.Set, error) { return j.sets, broken }
	pass(t, r)
	if got := j.removed(); len(got) > 0 {
		t.Errorf("got the calls %q beside %q, want none", got, broken)
	}
	r.Sets = func() ([]pinset.Set, error) { return j.sets, nil }
	pass(t, r)
	if got, want := j.removed(), []string{"remove " + images[1].String()}; !slices.Equal(got, want) {
		t.Errorf("got the calls %q, want %q", got, want)
	}
}

// An image that cannot be removed is told of; one that is gone all the same is not.
func TestPruneTellsWhatStays(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone %v", gone), func(t *testing.T) {
			r, j := journaled(t, 2)
			r.Images, r.Prune = stubborn{j, gone}, true
			var pruned []pinset.Image
			r.Hooks.Pruned = func(img pinset.Image) { pruned = append(pruned, img) }
			pass(t, r)
			dropped := j.sets[0].Images[1]
			j.sets[0].Images = j.sets[0].Images[:1]
			s := pass(t, r)
			if gone != s.Healthy() || gone != (len(pruned) == 1) {
				t.Errorf("got %v, pruned %v, want healthy %v", s.Errors, pruned, gone)
			}
			if !gone && !strings.Contains(strings.Join(s.Errors, ""), "remove "+dropped.String()) {
				t.Errorf("got %v, want that %s was not removed", s.Errors, dropped)
			}
		})
	}
}

// stubborn complains about every image that it removes, and may keep it.
type stubborn struct {
	*journal
	gone bool
}

func (s stubborn) Remove(ctx context.Context, img pinset.Image) error {
	if s.gone {
		_ = s.journal.Remove(ctx, img) // which never fails
	}
	return errors.New("layer is in use")
}

// What a container uses stays, and what nobody can tell of.
func TestPruneLeavesWhatIsInUse(t *testing.T) {
	for name, c := range map[string]struct {
		used   func(name string) map[string]bool
		failed error
	}{
		"by a container":  {func(name string) map[string]bool { return map[string]bool{name: true} }, nil},
		"nobody can tell": {func(string) map[string]bool { return nil }, errors.New("CRI-O does not answer")},
	} {
		t.Run(name, func(t *testing.T) {
			r, j := journaled(t, 2)
			r.Prune = true
			pass(t, r)
			dropped := j.sets[0].Images[1].String()
			r.Runtime = using{r.Runtime, c.used(dropped), c.failed}
			j.sets[0].Images = j.sets[0].Images[:1]
			s := pass(t, r)
			if got := j.removed(); len(got) > 0 || s.Healthy() != (c.failed == nil) {
				t.Errorf("got the calls %q, %v, want none", got, s.Errors)
			}
		})
	}
}

// using is a runtime whose containers have images.
type using struct {
	runtime.Runtime
	used   map[string]bool
	failed error
}

func (u using) ImagesInUse(context.Context) (map[string]bool, error) { return u.used, u.failed }

// CRI-O finds an image of a store by its digest, and pins by names: it pulls the name.
func TestImageUnderAnotherNameIsPulled(t *testing.T) {
	r, j := journaled(t, 2)
	images := j.sets[0].Images
	j.images = []string{images[0].String(), images[1].String()}
	r.Images = misnaming{j}
	r.PinTimeout = 50 * time.Millisecond
	pass(t, r)
	if got := slices.DeleteFunc(slices.Clone(j.calls), func(call string) bool { return call != "pull" }); len(got) != 1 {
		t.Errorf("got %d pulls, want that of the image that is not pinned", len(got))
	}
}

// misnaming is a runtime that pins all images but the first.
type misnaming struct{ *journal }

func (m misnaming) List(ctx context.Context) ([]pinset.StoredImage, error) {
	all, err := m.journal.List(ctx)
	all[0].Pinned = false
	return all, err
}
