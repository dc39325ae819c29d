package root

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/layout"
)

// mainStore is a graph root with layers, given as "id<parent", and images, given as "id=layer".
type mainStore struct {
	t    *testing.T
	root string
}

func newMainStore(t *testing.T, layers, images, containers string) mainStore {
	t.Helper()
	m := mainStore{t, t.TempDir()}
	m.write(layers, images)
	var records []string
	for _, c := range strings.Fields(containers) {
		records = append(records, fmt.Sprintf(`{"id":"c%s","layer":%q}`, c, c))
	}
	m.file(layout.ContainersFile, "["+strings.Join(records, ",")+"]")
	return m
}

func (m mainStore) file(name, content string) {
	m.t.Helper()
	path := filepath.Join(m.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

// write writes records, and the files that belong to them.
func (m mainStore) write(layers, images string) {
	m.t.Helper()
	var records []string
	for _, l := range strings.Fields(layers) {
		id, parent, _ := strings.Cut(l, "<")
		records = append(records, fmt.Sprintf(`{"id":%q,"parent":%q,"diff-digest":"sha256:x"}`, id, parent))
		m.file("overlay/"+id+"/diff/file", id)
		m.file("overlay/"+id+"/link", "L"+id)
		m.file("overlay/l/L"+id, id)
		m.file(layout.TarSplitFile(id), id)
		if parent != "" {
			m.file("overlay/"+id+"/lower", "l/L"+parent)
		}
	}
	m.file(layout.LayersFile, "["+strings.Join(records, ",")+"]")
	records = nil
	for _, i := range strings.Fields(images) {
		id, layer, _ := strings.Cut(i, "=")
		records = append(records, fmt.Sprintf(`{"id":%q,"layer":%q,"names":["name-%s"],"created":"2026"}`, id, layer, id))
		m.file(layout.ImagesDir+"/"+id+"/manifest", id)
	}
	m.file(layout.ImagesFile, "["+strings.Join(records, ",")+"]")
}

// want compares the records with those that newMainStore takes; each has its files.
func (m mainStore) want(when, layers, images string) {
	m.t.Helper()
	r, err := readRecords(m.root)
	if err != nil {
		m.t.Fatal(err)
	}
	var got []string
	for _, l := range r.layers {
		if content, err := os.ReadFile(filepath.Join(m.root, "overlay", l.ID, "diff/file")); err != nil || len(l.ID) < 64 && string(content) != l.ID {
			m.t.Errorf("%s: the layer %s has the content %q, %v", when, l.ID, content, err)
		}
		if _, err := os.Stat(filepath.Join(m.root, layout.TarSplitFile(l.ID))); err != nil {
			m.t.Errorf("%s: %v", when, err)
		}
		if len(l.ID) < 64 { // no placeholder
			got = append(got, strings.TrimSuffix(l.ID+"<"+l.Parent, "<"))
		}
	}
	slices.Sort(got)
	if text := strings.Join(got, " "); text != layers {
		m.t.Errorf("%s: got the layers %q, want %q", when, text, layers)
	}
	got = nil
	for _, i := range r.images {
		if content, err := os.ReadFile(filepath.Join(m.root, layout.ImagesDir, i.ID, "manifest")); err != nil || string(content) != i.ID {
			m.t.Errorf("%s: the image %s has the manifest %q, %v", when, i.ID, content, err)
		}
		got = append(got, i.ID+"="+i.Layer)
	}
	slices.Sort(got)
	if text := strings.Join(got, " "); text != images {
		m.t.Errorf("%s: got the images %q, want %q", when, text, images)
	}
}

func has(layers string) func(string) bool {
	return func(layer string) bool { return slices.Contains(strings.Fields(layers), layer) }
}

// What stands on a layer that no store has is set aside, and comes back with it, record for record; what was pulled
// meanwhile stays as it is.
func TestRecordsAreSetAside(t *testing.T) {
	for name, c := range map[string]struct {
		layers, images, containers string
		// others are the layers of other stores, and left those after one is gone.
		others, left             string
		wantLayers, wantImages   string
		pulledLayers, pulled     string // meanwhile, "" for nothing
		backLayers, backImages   string
		returned                 string // the layers of other stores that come back
		leftImages               int
		withoutLinks, notTouched bool
	}{
		"an image over a layer of a store": {layers: "a b<s", images: "i=a j=b", others: "s",
			wantLayers: "a", wantImages: "i=a", returned: "s", backLayers: "a b<s", backImages: "i=a j=b"},
		"a name of an image of a store": {layers: "a", images: "i=a j=s", others: "s",
			wantLayers: "a", wantImages: "i=a", returned: "s", backLayers: "a", backImages: "i=a j=s"},
		"several layers": {layers: "a b<s c<b d<c", images: "i=a j=d k=c", others: "s",
			wantLayers: "a", wantImages: "i=a", returned: "s", backLayers: "a b<s c<b d<c", backImages: "i=a j=d k=c"},
		"another store is left": {layers: "a<s b<u", images: "i=a j=b", others: "s u", left: "u",
			wantLayers: "b<u", wantImages: "j=b", returned: "s u", backLayers: "a<s b<u", backImages: "i=a j=b"},
		"nothing": {layers: "a b<a", images: "i=b", wantLayers: "a b<a", wantImages: "i=b", backLayers: "a b<a",
			backImages: "i=b", notTouched: true},
		"a layer of no image": {layers: "b<s", others: "s", returned: "s", backLayers: "b<s"},
		"a container": {layers: "b<s c<b", images: "j=b", containers: "c", others: "s", wantLayers: "c<b", returned: "s",
			backLayers: "b<s c<b", backImages: "j=b"},
		"a container on the store": {layers: "c<s", containers: "c", others: "s", wantLayers: "c<s", returned: "s", backLayers: "c<s", notTouched: true},
		"the store stays away":     {layers: "b<s", images: "j=b", others: "s", leftImages: 1},
		"pulled again": {layers: "b<s", images: "j=b", others: "s", pulledLayers: "s b<s", pulled: "j=b",
			backLayers: "b<s s", backImages: "j=b"},
		"a layer was pulled again": {layers: "b<s", images: "j=b", others: "s", pulledLayers: "s", pulled: "k=s",
			backLayers: "b<s s", backImages: "j=b k=s"},
		"by another link": {layers: "b<s", images: "j=b", others: "s", returned: "s", withoutLinks: true, leftImages: 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMainStore(t, c.layers, c.images, c.containers)
			kept, calls := Aside{}, 0
			keep := func(a Aside) error { calls++; kept = a; return nil }
			if err := SetAside(t.Context(), m.root, has(c.others), kept, keep); err != nil || calls > 0 {
				t.Fatalf("with all stores: got %v, %d calls", err, calls)
			}
			for n := range 2 { // the second one finds nothing to do
				if err := SetAside(t.Context(), m.root, has(c.left), kept, keep); err != nil {
					t.Fatal(err)
				}
				if want := 1; calls != want && !c.notTouched || c.notTouched && calls > 0 {
					t.Errorf("%d: got %d calls of keep, want %d", n, calls, want)
				}
				m.want("set aside", c.wantLayers, c.wantImages)
			}
			if c.pulled != "" {
				m.pull(c.pulledLayers, c.pulled)
			}
			linked := func(string) bool { return !c.withoutLinks }
			left, changed, err := PutBack(t.Context(), m.root, has(c.returned), linked, kept)
			if err != nil || len(left.Images) != c.leftImages || changed != (!kept.IsEmpty() && c.leftImages == 0) {
				t.Errorf("got %d images left, changed %v, %v, want %d", len(left.Images), changed, err, c.leftImages)
			}
			m.want("put back", c.backLayers, c.backImages)
			if c.leftImages > 0 {
				return
			}
			if left, err := filepath.Glob(filepath.Join(m.root, AsideDir, "*", "*")); err != nil || len(left) > 0 {
				t.Errorf("got the files %v, %v, want none left", left, err)
			}
			if layers, _ := filepath.Glob(filepath.Join(m.root, "overlay", strings.Repeat("?", 64))); len(layers) > 0 {
				t.Errorf("got the layers %v, want none left", layers)
			}
		})
	}
}

// pull adds layers and images, as the library does: it removes the folder of a layer that has no record.
func (m mainStore) pull(layers, images string) {
	m.t.Helper()
	before, err := readRecords(m.root)
	if err != nil {
		m.t.Fatal(err)
	}
	m.write(layers, images)
	for name, old := range map[string][]head{layout.LayersFile: before.layers, layout.ImagesFile: before.images} {
		content, err := os.ReadFile(filepath.Join(m.root, name))
		if err != nil {
			m.t.Fatal(err)
		}
		var all []json.RawMessage
		if err := json.Unmarshal(content, &all); err != nil {
			m.t.Fatal(err)
		}
		for _, h := range old {
			all = append(all, h.text)
		}
		content, err = json.Marshal(all)
		if err != nil {
			m.t.Fatal(err)
		}
		m.file(name, string(content))
	}
}

// A name that another image got meanwhile stays there: two images of one name are an error of the library.
func TestNamesOfWhatWasPutBack(t *testing.T) {
	m := newMainStore(t, "b<s", "j=b", "")
	var kept Aside
	if err := SetAside(t.Context(), m.root, has(""), kept, func(a Aside) error { kept = a; return nil }); err != nil {
		t.Fatal(err)
	}
	m.file(layout.ImagesFile, `[{"id":"k","names":["name-j","other"]}]`)
	if _, _, err := PutBack(t.Context(), m.root, has("s"), has("Ls"), kept); err != nil {
		t.Fatal(err)
	}
	r, err := readRecords(m.root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, i := range r.images {
		got[i.ID] = strings.Join(i.Names, " ")
	}
	if want := map[string]string{"j": "", "k": "name-j other"}; !maps.Equal(got, want) {
		t.Errorf("got the names %q, want %q", got, want)
	}
}

// If what is set aside cannot be stored, the main store stays as it is.
func TestNothingIsSetAsideWithoutARecord(t *testing.T) {
	m := newMainStore(t, "a b<s", "i=a j=b", "")
	full := errors.New("full")
	if err := SetAside(t.Context(), m.root, has(""), Aside{}, func(Aside) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	m.want("after the error", "a b<s", "i=a j=b")
}
