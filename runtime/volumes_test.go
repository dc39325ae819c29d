package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/pinset"
)

// volumeNode is a node whose store has a lock, and with the images in CRI-O's own store.
type volumeNode struct {
	*fakeNode
	lock   pinset.Lock
	own    map[string]string
	layers pinset.Layers
	copied []pinset.Image
	err    error
}

func (n *volumeNode) Locks() (stores, beside []pinset.Lock, err error) {
	return []pinset.Lock{n.lock}, nil, nil
}

func (n *volumeNode) Own(string) (map[string]string, pinset.Layers, error) {
	layers := pinset.Layers{}
	for k, v := range n.layers {
		layers[k] = v
	}
	return n.own, layers, nil
}

func (n *volumeNode) Copy(_ context.Context, _ string, images []pinset.Image) error {
	n.copied = append(n.copied, images...)
	return n.err
}

// A pass copies the images of image volumes, and no others, that CRI-O's own store does not have with all layers.
func TestImageVolumes(t *testing.T) {
	const top, below = "sha256:" + "1111111111111111111111111111111111111111111111111111111111111111",
		"sha256:" + "2222222222222222222222222222222222222222222222222222222222222222"
	for name, test := range map[string]struct {
		change func(*volumeNode, *runtime.Reconciler)
		copied bool
		want   string // in the errors of the status
	}{
		"reported": {func(_ *volumeNode, r *runtime.Reconciler) { of(r).conf.CopyVolumes = false }, false, "pods cannot mount image volumes"},
		"copied":   {func(*volumeNode, *runtime.Reconciler) {}, true, ""},
		"there":    {func(n *volumeNode, _ *runtime.Reconciler) { n.layers.Add("b", "a", top) }, false, ""},
		// A pull reuses the layers of read-only stores.
		"pulled in part":          {func(*volumeNode, *runtime.Reconciler) {}, true, ""},
		"layers only":             {func(n *volumeNode, _ *runtime.Reconciler) { n.layers.Add("b", "a", top); n.own = nil }, true, ""},
		"no image volume":         {func(n *volumeNode, _ *runtime.Reconciler) { n.lock.Images[0].Volume = false }, false, ""},
		"other platform":          {func(n *volumeNode, _ *runtime.Reconciler) { n.lock.Platform = "linux/s390x" }, false, ""},
		"no space":                {func(n *volumeNode, _ *runtime.Reconciler) { n.space = disk.Space{Total: 1 << 40, Free: 1} }, false, "Copying the images of image volumes on "},
		"cannot be written":       {func(n *volumeNode, _ *runtime.Reconciler) { n.err = errors.New("read-only") }, true, "image volumes: read-only"},
		"Machine Config Operator": {func(_ *volumeNode, r *runtime.Reconciler) { options(r).Owner = runtime.MCO }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node := &volumeNode{fakeNode: &fakeNode{server: &fakecri.Server{}}, layers: pinset.Layers{}}
			r := newReconciler(t, node.fakeNode, 2)
			runPass(t, r) // pulls the images
			img := node.sets[0].Images[0]
			node.own = map[string]string{img.String(): "id"}
			node.layers.Add("a", "", below)
			node.lock = pinset.Lock{Platform: pinset.Platform("linux/" + goruntime.GOARCH), Images: []pinset.LockedImage{{
				Pin: img.String(), Volume: true,
				Layers: []*pinset.LockedLayer{{DiffID: below, Digest: below}, {DiffID: top, Digest: top, UnpackedSize: 1000}},
			}}}
			of(r).conf.Disk, of(r).conf.Volumes, of(r).conf.CopyVolumes = node, node, true
			test.change(node, r)
			s := runPass(t, r)
			if got := slices.Equal(node.copied, []pinset.Image{img}); got != test.copied || !got && node.copied != nil {
				t.Errorf("got %v copied, want %s: %v", node.copied, img, test.copied)
			}
			errs := strings.Join(s.Errors, "\n")
			if (errs == "") != (test.want == "") || !strings.Contains(errs, test.want) {
				t.Errorf("got the errors %q, want %q", errs, test.want)
			}
		})
	}
}
