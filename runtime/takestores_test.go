package runtime_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ofStore is a node whose set has three images and names a store. take attaches the store: it is called with the
// number of the attempt, and returns how many of the images the store has.
func ofStore(t *testing.T, take func(n int) (images int, err error)) (*recordingNode, *runtime.Reconciler) {
	t.Helper()
	node := &recordingNode{fakeNode: &fakeNode{server: &fakecri.Server{}}}
	r := newReconciler(t, node.fakeNode, 3)
	r.Images, of(r).conf.Disk, r.Pins = node, node, node
	node.sets[0].Store = "https://files.example.com/1/delta.thin"
	n := 0
	r.Stores = of(r)
	of(r).take = func(_ context.Context, name string) error {
		node.record("take " + name)
		images, err := take(n)
		n++
		for _, img := range node.sets[0].Images[:images] {
			node.stored = append(node.stored, img.String())
		}
		return err
	}
	return node, r
}

// count counts the calls of one kind.
func (node *recordingNode) count(call string) (n int) {
	for _, c := range node.calls {
		if c == call {
			n++
		}
	}
	return n
}

const takeStore = "take https://files.example.com/1/delta.thin"

// The store that a set names is attached instead of pulling its images; what it lacks is pulled. It is asked for once,
// and only while images are missing.
func TestStoreOfASet(t *testing.T) {
	for name, c := range map[string]struct{ images, pulls int }{
		"all images": {3, 0}, "some": {1, 2}, "none": {0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			node, r := ofStore(t, func(int) (int, error) { return c.images, nil })
			for range 2 {
				s := runPass(t, r)
				if !s.Healthy() || s.Sets[0].StoreError != "" || s.Sets[0].Store != node.sets[0].Store {
					t.Errorf("got %+v, want a healthy node with the name of the store", s)
				}
			}
			if got := node.count("pull"); got != c.pulls {
				t.Errorf("got %d pulls, want %d", got, c.pulls)
			}
			if got := node.count(takeStore); got != 1 {
				t.Errorf("got %d attempts to attach the store, want 1", got)
			}
			if at := slices.Index(node.calls, takeStore); at > slices.Index(node.calls, "pin") {
				t.Errorf("got the calls %v, want the store before the pins", node.calls)
			}
		})
	}
}

// A store that cannot be had is no fault of the node: the images are pulled, and the status has the reason, also that
// of a later process.
func TestStoreOfASetThatCannotBeHad(t *testing.T) {
	node, r := ofStore(t, func(int) (int, error) { return 0, errors.New("no route\nto host") })
	s := runPass(t, r)
	if !s.Healthy() || s.Sets[0].StoreError != "no route; to host" || node.count("pull") != 3 {
		t.Errorf("got %+v after %d pulls, want a healthy node with the reason after 3", s, node.count("pull"))
	}
	_, later := ofStore(t, func(int) (int, error) { t.Error("got an attempt, want none"); return 0, nil })
	later.Images, of(later).conf.Disk, later.Pins = node, node, node
	later.Continue(s)
	if s = runPass(t, later); s.Sets[0].StoreError != "no route; to host" {
		t.Errorf("a later process: got %+v, want the reason", s.Sets[0])
	}
}

// While a slow server gives a store, what no store brings is pulled; the images of the store are not.
func TestSlowStoreDelaysNoOtherSet(t *testing.T) {
	node, r := ofStore(t, nil)
	pulled := make(chan string, 8)
	on(r, "pulled", func(e event) { pulled <- e.attr("image").(pinset.Image).String() })
	slow := node.sets[0]
	other := pinset.Set{Name: "other", Images: []pinset.Image{{Repository: "quay.io/x/other", Digest: digest.FromString("other")}}}
	node.sets = append(node.sets, other)
	of(r).take = func(ctx context.Context, _ string) error {
		select {
		case name := <-pulled:
			if name != other.Images[0].String() {
				t.Errorf("got %s pulled while its store is fetched", name)
			}
			return errors.New("the server is too slow")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s := runPass(t, r)
	if !s.Healthy() || s.Sets[0].StoreError != "the server is too slow" || len(pulled) != len(slow.Images) {
		t.Errorf("got %+v and %d more pulls, want a healthy node, and the images of the store pulled then", s, len(pulled))
	}
}

// Nothing is attached for a set that has all of its images, or names no store.
func TestNoStoreIsTakenWithoutNeed(t *testing.T) {
	for name, change := range map[string]func(*recordingNode){
		"all images are there": func(node *recordingNode) {
			for _, img := range node.sets[0].Images {
				node.stored = append(node.stored, img.String())
			}
		},
		"no store": func(node *recordingNode) { node.sets[0].Store = "" },
	} {
		t.Run(name, func(t *testing.T) {
			node, r := ofStore(t, func(int) (int, error) { return 0, nil })
			change(node)
			if s := runPass(t, r); !s.Healthy() {
				t.Errorf("got %+v, want a healthy node", s)
			}
			if got := node.count(takeStore); got != 0 {
				t.Errorf("got %d attempts to attach the store, want none", got)
			}
		})
	}
}
