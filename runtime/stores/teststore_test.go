package stores_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/pinset"
)

// testStore is a store of a few kilobytes: the records of one layer and of an image on it. With
// it, tests of a Manager need no builder, no CRI-O and no registry.
type testStore struct {
	// n numbers its layer, its image and its set.
	n int
	// extra are the numbers of further layers, each with an image.
	extra []int
	// baseLayers are the layers below its own that other stores have, from the base up.
	baseLayers []int
	// link is the link name of its layer; "" for the one that layers above refer to.
	link string
	// damage changes the files before the store is made of them; nil is fine.
	damage func(tree string) error
}

// idOf is the ID of the layer or image n.
func idOf(kind string, n int) string { return digest.FromString(kind + string(rune('a'+n))).Encoded() }

// linkOf is the link name of the layer n: 26 upper-case letters, as containers/storage makes them.
func linkOf(n int) string { return strings.Repeat(string(rune('A'+n)), 26) }

// pinOf is the pin of the image n.
func pinOf(n int) string { return "quay.io/small/app@sha256:" + idOf("manifest", n) }

func imageOf(t *testing.T, n int) pinset.Image {
	t.Helper()
	img, err := pinset.ParseImage(pinOf(n))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// object is a record in JSON.
type object map[string]any

// files are the files of the store, by their names.
func (s testStore) files(t *testing.T) map[string][]byte {
	t.Helper()
	parent, needs := "", []pinset.Need{}
	for _, n := range s.baseLayers {
		parent = idOf("layer", n)
		needs = append(needs, pinset.Need{Layer: parent, Link: linkOf(n)})
	}
	link := linkOf(s.n)
	if s.link != "" {
		link = s.link
	}
	lock := pinset.Lock{
		Version: pinset.LockVersion, Platform: pinset.Platform("linux/" + goruntime.GOARCH),
		Sets: []pinset.LockedSet{{Name: "s", Images: []string{pinOf(s.n)}}},
	}
	files := map[string][]byte{"overlay/l/" + link: nil, "pinbox/sets/s.yaml": sample.SetNamed("s", pinOf(s.n))}
	var layers, images []object
	for _, n := range append([]int{s.n}, s.extra...) {
		id, diffID := idOf("layer", n), digest.FromString(pinOf(n))
		layers = append(layers, object{"id": id, "parent": parent, "diff-digest": diffID, "compressed-diff-digest": diffID})
		images = append(images, object{"id": idOf("image", n), "names": []string{pinOf(n)}, "layer": id})
		lock.Images = append(lock.Images, pinset.LockedImage{
			Pin: pinOf(n), Manifest: imageOf(t, n).Digest, Config: digest.NewDigestFromEncoded(digest.SHA256, idOf("image", n)),
			Layers: []pinset.LockedLayer{{Digest: diffID, DiffID: diffID, Size: 1}},
		})
		files["overlay/"+id+"/link"] = []byte(linkOf(n))
	}
	files["overlay/"+idOf("layer", s.n)+"/link"] = []byte(link)
	var lockText, deltaText bytes.Buffer
	if err := lock.Encode(&lockText); err != nil {
		t.Fatal(err)
	}
	files["overlay-images/images.json"], files["overlay-layers/layers.json"] = records(t, images...), records(t, layers...)
	files["overlay-images/images.lock"] = []byte(fmt.Sprint("images ", s.n, s.extra))
	files["overlay-layers/layers.lock"] = []byte(fmt.Sprint("layers ", s.n, s.extra))
	files["pinbox/pinbox.lock.json"] = lockText.Bytes()
	if len(s.baseLayers) > 0 {
		delta := pinset.Delta{Version: pinset.DeltaVersion, Name: "small", Bases: []pinset.Base{}, Needs: needs}
		if err := delta.Encode(&deltaText); err != nil {
			t.Fatal(err)
		}
		files["pinbox/delta.json"] = deltaText.Bytes()
	}
	return files
}

// records encodes the content of a file of records.
func records(t *testing.T, all ...object) []byte {
	t.Helper()
	content, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// folder writes the store as `pinbox delta` does: the file and its sum.
func (s testStore) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "delta.squashfs")
	for name, content := range s.files(t) {
		write(t, filepath.Join(tree, name), string(content))
	}
	if s.damage != nil {
		if err := s.damage(tree); err != nil {
			t.Fatal(err)
		}
	}
	fixtures.Run(t, "mksquashfs", tree, file, "-quiet", "-no-progress", "-processors", "1", "-mem", "16M")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "SHA256SUMS"), digest.FromBytes(content).Encoded()+"  delta.squashfs\n")
	return dir
}

// testNode is a Manager on a node without CRI-O, whose own store is a testStore.
type testNode struct {
	stores.Manager
	t *testing.T
	// main is the root of CRI-O's main store, which is empty.
	main string
	// wanted are the images that sets ask for.
	wanted []pinset.Image
}

// newNode makes a node with a store in its first slot and three free slots.
func newNode(t *testing.T, base testStore) *testNode {
	t.Helper()
	fixtures.NeedRoot(t)
	dir := t.TempDir()
	d := &testNode{t: t, main: filepath.Join(dir, "main")}
	d.Manager = stores.Manager{
		Dir: filepath.Join(dir, "stores.d"), Sets: filepath.Join(dir, "sets.d"), Keys: filepath.Join(dir, "keys.d"),
		Mounter: stores.DirectMounter{}, KeepPrevious: 1,
		Wanted: func() ([]pinset.Image, error) { return d.wanted, nil },
	}
	for _, n := range []string{"0", "1", "2", "3"} {
		d.Slots = append(d.Slots, filepath.Join(dir, "stores", n))
	}
	d.Configured = d.Slots
	for _, name := range []string{d.Slots[0], d.Sets, filepath.Join(d.main, "overlay-layers")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(d.Sets, "s.yaml"), string(sample.SetNamed("s", pinOf(base.n))))
	own := filepath.Join(base.folder(t), "delta.squashfs")
	fixtures.Run(t, "mount", "-t", "squashfs", "-o", "ro,loop", own, d.Slots[0])
	t.Cleanup(func() {
		for _, slot := range append(d.Slots, filepath.Join(d.Dir, "trial")) {
			for syscall.Unmount(slot, syscall.MNT_DETACH) == nil { // until nothing is mounted
			}
		}
	})
	return d
}

// attach attaches a store, which must succeed.
func (d *testNode) attach(o stores.AttachOptions) stores.Store {
	d.t.Helper()
	a, err := d.Attach(d.t.Context(), o)
	if err != nil {
		d.t.Fatal(err)
	}
	return a.Store
}

// wantMounted checks that the attached stores have these images, in this order, and that all
// are mounted.
func (d *testNode) wantMounted(want ...int) {
	d.t.Helper()
	all, err := d.Status(d.t.Context())
	if err != nil || len(all) != len(want) {
		d.t.Fatalf("got %d stores, %v, want %d", len(all), err, len(want))
	}
	for i, s := range all {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(d.Slots[0]), s.Slot, "overlay-images/images.json"))
		if s.Problem != nil || err != nil || !strings.Contains(string(text), pinOf(want[i])) {
			d.t.Errorf("slot %s: got %s, %v, %v, want %s", s.Slot, text, err, s.Problem, pinOf(want[i]))
		}
	}
}

// wantSet checks that the folder of sets has the set of a release.
func (d *testNode) wantSet(n int) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.Sets, "s.yaml"))
	if err != nil || !strings.Contains(string(text), pinOf(n)) {
		d.t.Errorf("got %s, %v in the folder of sets, want %s", text, err, pinOf(n))
	}
}

// interruptingMounter calls act after each unmount, before it returns.
type interruptingMounter struct {
	stores.DirectMounter
	act func()
}

func (m interruptingMounter) Unmount(ctx context.Context, where string) error {
	err := m.DirectMounter.Unmount(ctx, where)
	m.act()
	return err
}
