package runtime_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// The kubelet cannot remove images of read-only stores, so those that no set has are pinned, too. A
// store with the images of the sets alone changes nothing, not even by its tags or other names.
func TestImagesOfStoresArePinned(t *testing.T) {
	for name, test := range map[string]struct {
		// stored are the names of an image of a store; A is the image of the set, B another one.
		stored []string
		pins   string
		owner  runtime.Owner
		status []string // names of the image that no set has
		pinned bool
	}{
		"the image of the set":    {[]string{"A"}, "A", "", nil, false},
		"with more names":         {[]string{"A", "B", "quay.io/x/a:1"}, "A", "", nil, false},
		"another image":           {[]string{"B", "quay.io/x/b:1"}, "AB", "", []string{"B", "quay.io/x/b:1"}, true},
		"a tag alone":             {[]string{"quay.io/x/b:1"}, "A", "", []string{"quay.io/x/b:1"}, false},
		"no name":                 {nil, "A", "", []string{"id"}, false},
		"the operator pins":       {[]string{"B"}, "", runtime.MCO, []string{"B"}, false},
		"the operator pins it so": {[]string{"A"}, "", runtime.MCO, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &fakeNode{}
			node.server = &fakecri.Server{Pinned: node.isPinned}
			r := newReconciler(t, node, 2)
			images := map[string]pinset.Image{"A": node.sets[0].Images[0], "B": node.sets[0].Images[1]}
			expand := func(names []string) (all []string) {
				for _, n := range names {
					if img, ok := images[n]; ok {
						n = img.String()
					}
					all = append(all, n)
				}
				return all
			}
			for _, img := range images {
				if err := r.Images.Pull(t.Context(), img); err != nil {
					t.Fatal(err)
				}
			}
			node.sets[0].Images, options(r).Owner = []pinset.Image{images["A"]}, test.owner
			node.stored = []pinset.StoredImage{{ID: "id", Names: expand(test.stored)}}
			s := runPass(t, r)
			var got string
			for _, key := range []string{"A", "B"} {
				if slices.Contains(node.pins, images[key]) {
					got += key
				}
			}
			if got != test.pins {
				t.Errorf("got the pins %q, want %q", got, test.pins)
			}
			var want []runtime.StoreImage
			if test.status != nil {
				want = []runtime.StoreImage{{Names: expand(test.status), Pinned: test.pinned}}
			}
			if diff := cmp.Diff(want, s.StoreImages); diff != "" {
				t.Errorf("images of stores in the status (-want +got):\n%s", diff)
			}
		})
	}
}

// While a store cannot be read, no image is unpinned, since the store may have it.
func TestStoreThatCannotBeReadUnpinsNothing(t *testing.T) {
	node := &fakeNode{}
	node.server = &fakecri.Server{Pinned: node.isPinned}
	r := newReconciler(t, node, 2)
	runPass(t, r)
	dropped := node.sets[0].Images[1]
	node.sets[0].Images, node.storedErr = node.sets[0].Images[:1], errors.New("images.json: input/output error")
	if runPass(t, r); !node.isPinned(dropped.String()) {
		t.Errorf("got the pins %v, want %s among them", node.pins, dropped)
	}
	node.storedErr = nil
	if runPass(t, r); node.isPinned(dropped.String()) {
		t.Errorf("once it can be read: got the pins %v, want them without %s", node.pins, dropped)
	}
}
