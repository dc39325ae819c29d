package stores_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/pinset"
)

// delta is a store whose base is the store of the node.
func delta(n int) testStore { return testStore{n: n} }

// zeros is a SHA-256 that no file has.
var zeros = strings.Repeat("0", 64)

// A store is found as a file, in a folder, and in the folder of a medium. Its digest is read from
// the sums next to it, unless the caller names it.
func TestSources(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(delta(1).folder(t), "delta.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	id := digest.FromBytes(content)
	type files map[string]string
	const sums = "SHA256SUMS"
	full := string(content)
	of := func(name string) string { return zeros + "  other\n" + id.Encoded() + "  " + name + "\n" }
	for name, c := range map[string]struct {
		files  map[string]string
		source string
		digest digest.Digest
		want   error
	}{
		"a file":                   {files{"d": full, sums: of("d")}, "d", "", nil},
		"sums of a medium":         {files{"d": full, "sums.txt": of("d")}, "d", "", nil},
		"a folder of pinbox build": {files{"store.squashfs": full, sums: of("store.squashfs")}, ".", "", nil},
		"the folder of a medium": {
			files{"pinbox/store.squashfs": full, "pinbox/sums.txt": of("store.squashfs")}, ".", "", nil,
		},
		"a digest":                {files{"d": full}, "d", id, nil},
		"a digest and other sums": {files{"d": full, sums: zeros + "  d\n"}, "d", id, nil},
		"another digest":          {files{"d": full}, "d", digest.FromString("x"), stores.ErrDamaged},
		"no sums":                 {files{"d": full}, "d", "", stores.ErrNoDigest},
		"sums of other files":     {files{"d": full, sums: of("e")}, "d", "", stores.ErrNoDigest},
		"invalid sums":            {files{"d": full, sums: "zz  d\n"}, "d", "", stores.ErrNoDigest},
		"cut short":               {files{"d": full[:len(full)-1], sums: of("d")}, "d", "", stores.ErrDamaged},
		"no store":                {files{"d": "text", sums: of("d")}, "d", "", stores.ErrDamaged},
		"an empty folder":         {nil, ".", "", stores.ErrNoStore},
		"nothing":                 {nil, "d", "", stores.ErrNoStore},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range c.files {
				write(t, filepath.Join(dir, name), content)
			}
			d := newNode(t, testStore{n: 0})
			a, err := d.Attach(t.Context(), stores.AttachOptions{Source: filepath.Join(dir, c.source), Digest: c.digest})
			if !errors.Is(err, c.want) || c.want == nil && a.Store.ID != id {
				t.Errorf("got %s, %v, want %s, %v", a.Store.ID, err, id, c.want)
			}
			if c.want == nil {
				d.wantMounted(1)
			} else {
				d.wantUntouched()
			}
		})
	}
}

// A source that is not a file, a folder or a medium is refused without reading it.
func TestSourceIsAPipe(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: pipe}); !errors.Is(err, stores.ErrNoStore) {
		t.Errorf("got %v, want %v", err, stores.ErrNoStore)
	}
}

// wantUntouched checks that no store is attached and no file was left.
func (d *testNode) wantUntouched() {
	d.t.Helper()
	d.wantMounted()
	if left, err := filepath.Glob(filepath.Join(d.Dir, "[^.]*")); err != nil || len(left) > 0 {
		d.t.Errorf("got %v, %v in the folder of stores, want nothing", left, err)
	}
	d.wantSet(0)
	if left, err := os.ReadDir(d.Sets); err != nil || len(left) != 1 {
		d.t.Errorf("got %v, %v in the folder of sets, want one set", left, err)
	}
}

// A store is refused if CRI-O could not list images with it.
func TestInvalidStoreContents(t *testing.T) {
	file := func(name, content string) func(string) error {
		return func(tree string) error { return os.WriteFile(filepath.Join(tree, name), []byte(content), 0o644) }
	}
	without := func(name string) func(string) error {
		return func(tree string) error { return os.RemoveAll(filepath.Join(tree, name)) }
	}
	pipe := func(name string) func(string) error {
		return func(tree string) error {
			return errors.Join(os.Remove(filepath.Join(tree, name)), syscall.Mkfifo(filepath.Join(tree, name), 0o644))
		}
	}
	unknown, path := digest.FromString("unknown").Encoded(), `{"layer":"../x","link":"`+linkOf(0)+`"}`
	for name, damage := range map[string]func(string) error{
		"no lock of images":         without("overlay-images/images.lock"),
		"no lock of layers":         without("overlay-layers/layers.lock"),
		"no images":                 without("overlay-images/images.json"),
		"no layers":                 without("overlay-layers/layers.json"),
		"images are a pipe":         pipe("overlay-images/images.json"),
		"layers are a pipe":         pipe("overlay-layers/layers.json"),
		"images are no JSON":        file("overlay-images/images.json", "["),
		"layers are no JSON":        file("overlay-layers/layers.json", "["),
		"no lock":                   without("pinbox/pinbox.lock.json"),
		"a lock of another version": file("pinbox/pinbox.lock.json", `{"version":99}`),
		"a delta that is no JSON":   file("pinbox/delta.json", "{"),
		"a delta with a path":       file("pinbox/delta.json", `{"version":1,"bases":[],"needs":[`+path+`]}`),
		"a delta that hides a need": without("pinbox/delta.json"),
		"an image on no layer":      file("overlay-images/images.json", `[{"id":"`+unknown+`","layer":"`+unknown+`"}]`),
		"an invalid set":            file("pinbox/sets/s.yaml", "kind: x\nspec: ["),
		"a hidden set":              file("pinbox/sets/.s.yaml", "kind: ConfigMap\n"),
		"sets are a file": func(tree string) error {
			return errors.Join(os.RemoveAll(filepath.Join(tree, "pinbox/sets")), file("pinbox/sets", "")(tree))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			s := delta(1)
			s.damage = damage
			if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: s.folder(t)}); !errors.Is(err, stores.ErrNotStore) &&
				(name != "a lock of another version" || !errors.Is(err, pinset.ErrNewer)) {
				t.Errorf("got %v, want %v", err, stores.ErrNotStore)
			}
			d.wantUntouched()
		})
	}
}

// A store without sets does not change the sets of the node.
func TestStoreWithoutSets(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	s := delta(1)
	s.damage = func(tree string) error { return os.RemoveAll(filepath.Join(tree, "pinbox/sets")) }
	d.attach(stores.AttachOptions{Source: s.folder(t), KeepSets: true})
	d.wantMounted(1)
}

// asked is a node that is asked on the way; a nil function is one without a problem.
type asked struct {
	fits func(bytes int64) error
	list func() error
}

// Fits implements stores.Node.
func (a asked) Fits(bytes int64) error {
	if a.fits == nil {
		return nil
	}
	return a.fits(bytes)
}

// List implements stores.Node.
func (a asked) List(context.Context) error {
	if a.list == nil {
		return nil
	}
	return a.list()
}

// progress is called with what is done of a step.
type progress func(step stores.Step, done, all int64)

// Done implements stores.Progress.
func (p progress) Done(step stores.Step, _ stores.Store, done, all int64) { p(step, done, all) }

// Note implements stores.Progress.
func (p progress) Note(string) {}

// The node is asked for the size of the file, and Progress gets the bytes read.
func TestSpaceAndProgress(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	folder := delta(1).folder(t)
	fi, err := os.Stat(filepath.Join(folder, "delta.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space")
	o := stores.AttachOptions{Source: folder, Node: asked{fits: func(bytes int64) error {
		if bytes != fi.Size() {
			t.Errorf("fits: got %d bytes, want %d", bytes, fi.Size())
		}
		return full
	}}}
	if _, err := d.Attach(t.Context(), o); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	d.wantUntouched()
	var done, all int64
	o.Node, o.Progress = nil, progress(func(step stores.Step, d, a int64) {
		if done, all = d, a; step != stores.Reading {
			t.Errorf("got the step %q, want %q", step, stores.Reading)
		}
	})
	d.attach(o)
	if done != fi.Size() || all != fi.Size() {
		t.Errorf("got %d of %d bytes, want %d of all", done, all, fi.Size())
	}
}

// Every slot but the first takes one store.
func TestSlots(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	for n := 1; n <= 3; n++ {
		if got := d.attach(stores.AttachOptions{Source: delta(n).folder(t)}).Slot; got != string(rune('0'+n)) {
			t.Errorf("got slot %s, want %d", got, n)
		}
	}
	_, err := d.Attach(t.Context(), stores.AttachOptions{Source: delta(4).folder(t)})
	if !errors.Is(err, stores.ErrNoSlot) {
		t.Errorf("got %v, want %v", err, stores.ErrNoSlot)
	}
	d.wantMounted(1, 2, 3)
	d.wantSet(3)
	if _, err := d.Detach(t.Context(), "2", d.main); err != nil {
		t.Fatal(err)
	}
	if got := d.attach(stores.AttachOptions{Source: delta(4).folder(t)}).Slot; got != "2" {
		t.Errorf("got slot %s, want the free one, 2", got)
	}
	d.wantMounted(1, 3, 4)
	d.Configured = nil
	_, err = d.Attach(t.Context(), stores.AttachOptions{Source: delta(5).folder(t)})
	if !errors.Is(err, stores.ErrNotConfigured) {
		t.Errorf("a CRI-O that reads no slots: got %v, want %v", err, stores.ErrNotConfigured)
	}
}
