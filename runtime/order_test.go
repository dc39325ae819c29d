package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

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

func (j *journal) List(context.Context) (all []pinset.Stored, err error) {
	for _, name := range j.images {
		all = append(all, pinset.Stored{ID: name, Names: []string{name}, Pinned: j.pinned(name)})
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
