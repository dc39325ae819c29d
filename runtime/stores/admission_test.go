package stores_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/layout"
)

// replace replaces a text in a file, and makes the lock file anew that goes with it.
func replace(name, old, text string) func(string) error {
	return func(tree string) error {
		file := filepath.Join(tree, name)
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		content = bytes.ReplaceAll(content, []byte(old), []byte(text))
		return errors.Join(os.WriteFile(file, content, 0o644), relock(tree))
	}
}

// relock makes the lock file of images.json anew, as somebody who wants the store to be mounted does.
func relock(tree string) error {
	text, err := os.ReadFile(filepath.Join(tree, layout.ImagesFile))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(tree, layout.ImagesLock), []byte(digest.FromBytes(text).Encoded()), 0o644)
}

// A store with the right sum that would stop CRI-O from listing images, that leads containers to
// files of the node, or that has names of other images, is not mounted. All of these were.
func TestHostileStoreIsNotMounted(t *testing.T) {
	dir := "overlay/" + idOf("layer", 1)
	swap := func(name string, make func(string) error) func(string) error {
		return func(tree string) error {
			path := filepath.Join(tree, name)
			return errors.Join(os.RemoveAll(path), make(path))
		}
	}
	link := func(target string) func(string) error {
		return func(path string) error { return os.Symlink(target, path) }
	}
	fifo := func(path string) error { return syscall.Mkfifo(path, 0o644) }
	manifest := layout.DocumentFile(idOf("image", 1), layout.ManifestData)
	for name, damage := range map[string]func(string) error{
		"a manifest that is none":          replace(manifest, "{", "["),
		"a manifest that is missing":       func(tree string) error { return os.Remove(filepath.Join(tree, manifest)) },
		"a diff that is a link to /etc":    swap(dir+"/diff", link("/etc")),
		"a link that is a FIFO":            swap(dir+"/link", fifo),
		"a lower that leads elsewhere":     replace(dir+"/lower", "l/", "../../../etc/"),
		"lower layers that lead elsewhere": replace(dir+"/lower-layers", "", "../../../etc:"),
		"a link name that leads elsewhere": swap("overlay/l/"+linkOf(1), link("../../../../etc")),
		"a device beside the records": func(tree string) error {
			return syscall.Mknod(filepath.Join(tree, "overlay-layers/x"), syscall.S_IFCHR|0o600, 1<<8|8)
		},
		"a digest of another image": replace(layout.ImagesFile, pinOf(1), pinOf(2)),
		"a tag that the lock does not have": replace(layout.ImagesFile, `"names":[`,
			`"names":["registry.k8s.io/pause:3.10",`),
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			s := delta(1)
			s.damage = damage
			_, err := d.Attach(t.Context(), stores.AttachOptions{Source: s.folder(t)})
			if !errors.Is(err, audit.ErrInvalid) && !errors.Is(err, os.ErrNotExist) || !errors.Is(err, stores.ErrNotStore) {
				t.Errorf("got %v, want %v", err, audit.ErrInvalid)
			}
			d.wantUntouched()
		})
	}
}

// A tag that a later release gave to another image is that image's in the compacted store: two images
// with one name would stop CRI-O from listing any.
func TestCompactionOfAMovedTag(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	const tag = "quay.io/small/app:stable"
	for n := 1; n <= 2; n++ {
		d.attach(stores.AttachOptions{Source: testStore{n: n, tags: []string{tag}}.folder(t)})
	}
	plan, err := d.compact(2)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, img := range plan.Lock.Images {
		got[img.Pin] = img.Tags
	}
	if len(got) != 2 || len(got[pinOf(1)]) != 0 || len(got[pinOf(2)]) != 1 {
		t.Errorf("got the tags %v, want %s for %s alone", got, tag, pinOf(2))
	}
}

// A store with which CRI-O cannot list its images is removed again: the sets and the stores are as
// before, and the reason stays in the state until another store is attached.
func TestStoreWithWhichNothingIsListed(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	reason, folder := errors.New("CRI-O: unexpected end of JSON"), delta(2).folder(t)
	times := 0
	o := stores.AttachOptions{Source: folder, Node: asked{list: func() error {
		times++
		if text, err := os.ReadFile(filepath.Join(d.Slots[2], layout.ImagesFile)); err != nil {
			t.Errorf("asked before the store is mounted: %s, %v", text, err)
		}
		return reason
	}}}
	_, err := d.Attach(t.Context(), o)
	if !errors.Is(err, reason) || !errors.Is(err, stores.ErrNotListed) || times != 1 {
		t.Errorf("got %v after %d questions, want %v", err, times, reason)
	}
	d.wantSet(1)
	all, err := d.Status(d.t.Context())
	if err != nil || len(all) != 2 || all[0].Problem != nil || !all[0].Current || !all[1].Refused ||
		!strings.Contains(all[1].Problem.Error(), reason.Error()) {
		t.Fatalf("got %+v, %v, want the first store and the refused one", all, err)
	}
	if left, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs")); err != nil || len(left) != 1 {
		t.Errorf("got the files %v, %v, want that of the first store", left, err)
	}
	auto := stores.AttachOptions{Source: folder, Auto: true}
	if a, err := d.Attach(t.Context(), auto); err != nil || !a.Found || a.Store.Slot != "" {
		t.Errorf("got %+v, %v, want that it is not attached again by itself", a, err)
	}
	o.Node = asked{}
	if _, err := d.Attach(t.Context(), o); err != nil {
		t.Error(err)
	}
	d.wantMounted(1, 2)
	d.wantSet(2)
}

// A digest in a name is content, so a store cannot give it to another image. A tag is that of one image,
// unless a store moves a tag of its own appliance.
func TestNameOfAnotherImage(t *testing.T) {
	const tag = "registry.k8s.io/pause:3.10"
	tagged := func(n int) testStore { return testStore{n: n, tags: []string{tag}} }
	foreign := tagged(5)
	foreign.release.Name = "other"
	for name, c := range map[string]struct {
		own, attached, next testStore
		main, manifest      string
		moved               bool
		want                error
	}{
		"the same image":                  {testStore{n: 0}, tagged(1), tagged(1), "", "", false, nil},
		"a delta after another":           {testStore{n: 0}, tagged(1), tagged(2), "", "", true, nil},
		"a delta after its base":          {tagged(0), delta(1), tagged(2), "", "", true, nil},
		"a full store of the appliance":   {testStore{n: 0}, tagged(1), tagged(5), "", "", true, nil},
		"a full store after a delta":      {testStore{n: 0}, tagged(1), foreign, "", "", false, stores.ErrNameTaken},
		"a full store after the base":     {tagged(0), delta(1), foreign, "", "", false, stores.ErrNameTaken},
		"a delta after another full one":  {testStore{n: 0}, foreign, tagged(1), "", "", false, stores.ErrNameTaken},
		"an image that CRI-O has pulled":  {testStore{n: 0}, delta(1), tagged(2), tag, "", false, stores.ErrNameTaken},
		"an image that CRI-O pulled, too": {testStore{n: 0}, delta(1), delta(2), tag, "", false, nil},
		// A pull in parts makes another ID of the same manifest.
		"an image that CRI-O pulled in parts":            {testStore{n: 0}, delta(1), tagged(2), tag, manifestOf(2), false, nil},
		"an image that CRI-O pulled in parts, by digest": {testStore{n: 0}, delta(1), tagged(2), pinOf(2), "", false, nil},
		"another manifest by this tag":                   {testStore{n: 0}, delta(1), tagged(2), tag, manifestOf(1), false, stores.ErrNameTaken},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, c.own)
			d.attach(stores.AttachOptions{Source: c.attached.folder(t), Force: true})
			if c.main != "" {
				record := object{"id": idOf("image", 7), "names": []string{c.main}}
				if c.manifest != "" {
					record["digest"] = digest.FromString(c.manifest)
				}
				write(t, filepath.Join(d.main, layout.ImagesFile), string(records(t, record)))
			}
			a, err := d.Attach(t.Context(), stores.AttachOptions{Source: c.next.folder(t), GraphRoots: []string{d.main}, Force: true})
			if !errors.Is(err, c.want) || slices.Equal(a.Moved, []string{tag}) != c.moved {
				t.Errorf("got %v and the moved tags %v, want %v", err, a.Moved, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), idOf("image", c.next.n)[:12]) ||
				!strings.Contains(err.Error(), tag)) {
				t.Errorf("got %v, want the name and both images", err)
			}
		})
	}
}

// The appliance's own store, whose records cannot be read, is unmounted before CRI-O starts, and only
// then; the reason stays in the status until it is mounted again.
func TestOwnStoreWithoutRecords(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	full := d.attach(stores.AttachOptions{Source: testStore{n: 5}.folder(t), KeepSets: true})
	mountOwn := func(s testStore) {
		t.Helper()
		own := filepath.Join(s.folder(t), "delta.squashfs")
		fixtures.Run(t, "mount", "-t", "squashfs", "-o", "ro,loop", own, d.Slots[0])
	}
	fixtures.Run(t, "umount", d.Slots[0])
	mountOwn(testStore{n: 0, damage: replace(layout.ImagesFile, "{", "[")})
	problems := func(stopped bool) (problems []error) {
		t.Helper()
		all, err := d.Reconcile(t.Context(), func() bool { return stopped })
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Problem != nil {
				problems = append(problems, s.Problem)
			}
		}
		return problems
	}
	if got := problems(false); len(got) > 0 {
		t.Errorf("while CRI-O runs: got %v, want nothing changed", got)
	}
	for range 2 { // the second time nothing is mounted
		got := problems(true)
		if len(got) != 1 || !strings.Contains(got[0].Error(), "own store was unmounted: "+layout.ImagesFile) {
			t.Errorf("got %v, want that the own store was unmounted", got)
		}
	}
	all, err := d.Status(d.t.Context())
	if err != nil || len(all) != 2 || all[0].Slot != "0" || all[0].Problem == nil || all[1].ID != full.ID {
		t.Errorf("got %+v, %v, want the own store and %s", all, err, full.ID)
	}
	mountOwn(testStore{n: 0})
	if got := problems(true); len(got) > 0 {
		t.Errorf("after it was mounted again: got %v", got)
	}
	d.wantMounted(5)
}

// The copy of a store has changed since it was attached, in a record alone: neither its size nor its lock
// files show it. It is not mounted.
func TestChangedRecordsAreNotMounted(t *testing.T) {
	for _, file := range []string{layout.ImagesFile, layout.LayersFile} {
		t.Run(file, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			o := d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
			d.reboot()
			changed := delta(1)
			changed.damage = func(tree string) error { return os.WriteFile(filepath.Join(tree, file), []byte("["), 0o644) }
			copied := filepath.Join(d.Dir, o.ID.Encoded()+".squashfs")
			// Another file, since mount(8) would reuse the loop device of this one, with what it has read, as long as
			// the mount before is in the mount namespace of any process.
			other := filepath.Join(changed.folder(t), "delta.squashfs")
			fixtures.Run(t, "truncate", "--size", fmt.Sprint(o.Size), other)
			fixtures.Run(t, "mv", other, copied)
			all, err := d.Reconcile(t.Context(), func() bool { return true })
			if err != nil || len(all) != 1 || all[0].Problem == nil || !strings.Contains(all[0].Problem.Error(), file) {
				t.Errorf("got %+v, %v, want that %s cannot be read", all, err, file)
			}
			if got, err := os.ReadDir(filepath.Join(filepath.Dir(d.Slots[0]), o.Slot)); len(got) > 0 {
				t.Errorf("got %v, %v in the slot, want nothing mounted", got, err)
			}
		})
	}
}

// A node to which nothing was attached has no state.
func TestOwnStoreOfANodeWithoutState(t *testing.T) {
	for name, c := range map[string]struct {
		own  testStore
		want int
	}{
		"intact":  {testStore{n: 0}, 0},
		"damaged": {testStore{n: 0, damage: replace(layout.ImagesFile, "{", "[")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, c.own)
			all, err := d.Reconcile(t.Context(), func() bool { return true })
			if err != nil || len(all) != c.want {
				t.Errorf("got %+v, %v, want %d stores", all, err, c.want)
			}
			if _, err := os.Stat(d.Dir); (err == nil) != (c.want > 0) {
				t.Errorf("state: got %v, want one: %v", err, c.want > 0)
			}
		})
	}
}
