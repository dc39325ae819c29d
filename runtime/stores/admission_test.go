package stores_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"

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
