package stores_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// testStore is a store of a few kilobytes with one layer and an image on it. With it, tests of a
// Manager need no builder, no CRI-O and no registry.
type testStore struct {
	// n numbers its layer, its image and its set. Those of 0, 5, 7 and 9 need no other store, that of 8 needs the layer
	// 1, that of 6 needs the layer 8, and all others need the layer 0. CRI-O cannot read the time in the configuration
	// of the image 9.
	n int
	// release that the lock names; the zero value is the appliance "small" without a number.
	release pinset.ReleaseID
	// extra are the numbers of further layers, each with an image.
	extra []int
	// link is the link name of its layer; "" for the one that layers above refer to.
	link string
	// set is the name of its set; "" for s.
	set string
	// lock changes the lock, and tags are further names of the image; nil is fine.
	lock func(*pinset.Lock)
	tags []string
	// damage changes the files before the store is made of them; nil is fine.
	damage func(tree string) error
}

// id is the release of the store.
func (s testStore) id() pinset.ReleaseID { return cmp.Or(s.release, pinset.ReleaseID{Name: "small"}) }

// chainOf numbers the layers of the image n, from the base up.
func chainOf(n int) []int {
	switch n {
	case 0, 5, 7, 9:
		return []int{n}
	case 8:
		return []int{0, 1, 8}
	case 6:
		return []int{0, 1, 8, 6}
	}
	return []int{0, n}
}

// diffOf is the DiffID of the layer n.
func diffOf(n int) digest.Digest { return digest.FromString(fmt.Sprint("layer ", n)) }

// layersOf are the IDs of the layers of the image n.
func layersOf(n int) (ids []string) {
	parent := ""
	for _, n := range chainOf(n) {
		parent = layout.LayerID(parent, diffOf(n))
		ids = append(ids, parent)
	}
	return ids
}

// configOf and manifestOf are documents of the image n.
func configOf(n int) string {
	var diffIDs []digest.Digest
	for _, n := range chainOf(n) {
		diffIDs = append(diffIDs, diffOf(n))
	}
	config := object{"rootfs": object{"diff_ids": diffIDs}}
	if n == 9 {
		config["created"] = "never"
	}
	text, _ := json.Marshal(config) // strings cannot fail
	return string(text)
}

func manifestOf(n int) string {
	config := object{"digest": digest.FromString(configOf(n))}
	text, _ := json.Marshal(object{"config": config, "layers": make([]object, len(chainOf(n)))}) // likewise
	return string(text)
}

// idOf is the ID of the layer or the image n; that of another kind is any.
func idOf(kind string, n int) string {
	switch kind {
	case "layer":
		return layersOf(n)[len(chainOf(n))-1]
	case "image":
		return digest.FromString(configOf(n)).Encoded()
	}
	return digest.FromString(fmt.Sprint(kind, n)).Encoded()
}

// linkOf is the link name of the layer n.
func linkOf(n int) string { return layout.LinkName(idOf("layer", n)) }

// pinOf is the pin of the image n.
func pinOf(n int) string { return "quay.io/small/app@" + digest.FromString(manifestOf(n)).String() }

func imageOf(t *testing.T, n int) pinset.Image {
	t.Helper()
	img, err := pinset.ParseImage(pinOf(n))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// object is a JSON object.
type object map[string]any

// write writes the files of the store into a folder.
func (s testStore) write(t *testing.T, dir string) {
	t.Helper()
	name := cmp.Or(s.set, "s")
	lock := pinset.Lock{
		Version: pinset.LockVersion, Platform: pinset.Platform("linux/" + goruntime.GOARCH),
		Sets:      []pinset.LockedSet{{Name: name, Images: []string{pinOf(s.n)}}},
		ReleaseID: s.id(),
	}
	file := func(name, content string) { write(t, filepath.Join(dir, name), content) }
	file("pinbox/sets/"+name+".yaml", string(sample.SetNamed(name, pinOf(s.n))))
	var layers []layout.Layer
	var images []layout.Image
	for _, n := range append([]int{s.n}, s.extra...) {
		tags := s.tags
		if n != s.n {
			tags = nil
		}
		images, lock.Images = append(images, writeImage(t, dir, n, tags)), append(lock.Images, lockedImage(n, tags))
		link := linkOf(n)
		if n == s.n && s.link != "" {
			link = s.link
		}
		layers = append(layers, writeLayer(t, dir, n, link))
	}
	if s.lock != nil {
		s.lock(&lock)
	}
	var text strings.Builder
	if err := lock.Encode(&text); err != nil {
		t.Fatal(err)
	}
	file("pinbox/pinbox.lock.json", text.String())
	writeRecords(t, file, "overlay-layers/layers", layers)
	writeRecords(t, file, "overlay-images/images", images)
	s.writeDelta(t, dir)
}

func writeRecords[T any](t *testing.T, file func(name, content string), kind string, list []T) {
	t.Helper()
	var text strings.Builder
	enc := layout.NewRecordEncoder(&text)
	for _, record := range list {
		if err := enc.Add(record); err != nil {
			t.Fatal(err)
		}
	}
	token, err := enc.Close()
	if err != nil {
		t.Fatal(err)
	}
	file(kind+".json", text.String())
	file(kind+".lock", string(token))
}

// writeDelta writes the description of a delta, if the store is one.
func (s testStore) writeDelta(t *testing.T, dir string) {
	t.Helper()
	delta := pinset.Delta{Version: pinset.DeltaVersion, Bases: []pinset.Base{}}
	chain := layersOf(s.n)
	for _, layer := range chain[:len(chain)-1] {
		if slices.ContainsFunc(s.extra, func(n int) bool { return idOf("layer", n) == layer }) {
			continue
		}
		delta.Needs = append(delta.Needs, pinset.Need{Layer: layer, Link: layout.LinkName(layer)})
	}
	if len(delta.Needs) == 0 {
		return
	}
	slices.SortFunc(delta.Needs, func(a, b pinset.Need) int { return strings.Compare(a.Layer, b.Layer) })
	var text strings.Builder
	if err := delta.Encode(&text); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "pinbox/delta.json"), text.String())
}

func lockedImage(n int, tags []string) pinset.LockedImage {
	locked := pinset.LockedImage{
		Pin: pinOf(n), Tags: tags, Manifest: digest.FromString(manifestOf(n)), Config: digest.FromString(configOf(n)),
	}
	for _, n := range chainOf(n) {
		locked.Layers = append(locked.Layers, &pinset.LockedLayer{Digest: diffOf(n), DiffID: diffOf(n), Size: 1})
	}
	return locked
}

// writeLayer writes the files of the layer n, and returns its record.
func writeLayer(t *testing.T, dir string, n int, link string) layout.Layer {
	t.Helper()
	chain := layersOf(n)
	id, below := chain[len(chain)-1], chain[:len(chain)-1]
	record := layout.Layer{ID: id, UncompressedDigest: diffOf(n), CompressedDigest: diffOf(n)}
	var lower, ids []string
	for _, parent := range below {
		record.Parent, lower = parent, append([]string{"l/" + layout.LinkName(parent)}, lower...)
		ids = append([]string{parent}, ids...)
	}
	if len(lower) > 0 {
		write(t, filepath.Join(dir, "overlay", id, "lower"), strings.Join(lower, ":"))
		write(t, filepath.Join(dir, "overlay", id, "lower-layers"), strings.Join(ids, ":"))
	}
	write(t, filepath.Join(dir, "overlay", id, "link"), link)
	write(t, filepath.Join(dir, "overlay-layers", id+".tar-split.gz"), "")
	diff := filepath.Join(dir, "overlay", id, "diff")
	links := filepath.Join(dir, "overlay/l")
	if err := errors.Join(os.MkdirAll(diff, 0o755), os.MkdirAll(links, 0o755),
		os.Symlink("../"+id+"/diff", filepath.Join(links, link))); err != nil {
		t.Fatal(err)
	}
	return record
}

// writeImage writes the documents of the image n, and returns its record.
func writeImage(t *testing.T, dir string, n int, tags []string) layout.Image {
	t.Helper()
	record := layout.Image{
		ID: idOf("image", n), Digest: digest.FromString(manifestOf(n)), Names: append([]string{pinOf(n)}, tags...),
		TopLayer: idOf("layer", n), BigDataSizes: map[string]int64{}, BigDataDigests: map[string]digest.Digest{},
	}
	for key, text := range map[string]string{
		layout.ConfigKey(record.ID): configOf(n), layout.ManifestData: manifestOf(n),
		layout.ManifestKey(record.Digest): manifestOf(n),
	} {
		record.BigDataNames = append(record.BigDataNames, key)
		record.BigDataSizes[key], record.BigDataDigests[key] = int64(len(text)), digest.FromString(text)
		write(t, filepath.Join(dir, layout.DocumentFile(record.ID, key)), text)
	}
	slices.Sort(record.BigDataNames)
	return record
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
	dir, content := t.TempDir(), s.squashfs(t)
	write(t, filepath.Join(dir, "delta.squashfs"), string(content))
	write(t, filepath.Join(dir, "SHA256SUMS"), digest.FromBytes(content).Encoded()+"  delta.squashfs\n")
	return dir
}

// squashfsOf has the bytes of the stores that were made, by their descriptions: most tests need the same few.
var squashfsOf sync.Map

// squashfs returns the bytes of the store. Equal stores have equal bytes, whenever they are made.
func (s testStore) squashfs(t *testing.T) []byte {
	t.Helper()
	key, described := fmt.Sprintf("%+v", s), s.lock == nil && s.damage == nil // a function has no description
	if content, made := squashfsOf.Load(key); made && described {
		return content.([]byte)
	}
	dir := t.TempDir()
	tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "delta.squashfs")
	s.write(t, tree)
	if s.damage != nil {
		if err := s.damage(tree); err != nil {
			t.Fatal(err)
		}
	}
	fixtures.Run(t, "mksquashfs", tree, file, "-quiet", "-no-progress", "-processors", "1", "-mem", "16M",
		"-mkfs-time", "0", "-all-time", "0")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if described {
		squashfsOf.Store(key, content)
	}
	return content
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
		Mounter: mount.Direct{}, KeepPrevious: 1,
		Wanted:    func() ([]pinset.Image, error) { return d.wanted, nil },
		Appliance: base.id(),
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
	mount.Direct
	act func()
}

func (m interruptingMounter) Unmount(ctx context.Context, where string) error {
	err := m.Direct.Unmount(ctx, where)
	m.act()
	return err
}
