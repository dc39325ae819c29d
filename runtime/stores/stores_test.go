package stores_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A layer counts if any store has it over the same parent, and its pull was complete.
func TestLayersOfSeveralStores(t *testing.T) {
	base, top, half := digest.FromString("base"), digest.FromString("top"), digest.FromString("half")
	root, slot := t.TempDir(), t.TempDir()
	b, middle, h := base.Encoded(), top.Encoded(), half.Encoded()
	write(t, filepath.Join(slot, "overlay-layers/layers.json"),
		`[{"id":"`+b+`","compressed-diff-digest":"`+base.String()+`"}]`)
	write(t, filepath.Join(root, "overlay-layers/layers.json"),
		`[{"id":"`+middle+`","parent":"`+b+`","diff-digest":"`+top.String()+`"}]`)
	write(t, filepath.Join(root, "overlay-layers/volatile-layers.json"),
		`[{"id":"`+h+`","parent":"`+middle+`","diff-digest":"`+half.String()+`","flags":{"incomplete":true}}]`)
	layers, err := stores.Disk{Slots: []string{slot, t.TempDir()}}.Layers(root)
	if err != nil {
		t.Fatal(err)
	}
	img := pinset.LockedImage{
		Layers: []*pinset.LockedLayer{{Digest: base, Size: 1}, {DiffID: top, Size: 2}, {DiffID: half, Digest: half, Size: 4}},
	}
	if missing, fetch := layers.MissingLayers(img); len(missing) != 1 || fetch != 4 {
		t.Errorf("got %v missing, %d bytes to fetch, want one layer of 4 bytes", missing, fetch)
	}
	write(t, filepath.Join(root, "overlay-layers/layers.json"), `[{"id":`)
	if _, err := (stores.Disk{}).Layers(root); err == nil || !strings.Contains(err.Error(), "overlay-layers/layers.json") {
		t.Errorf("got %v, want an error of layers.json", err)
	}
}

// A lock that cannot be read does not hide the others.
func TestLocks(t *testing.T) {
	slot, sets := t.TempDir(), t.TempDir()
	write(t, filepath.Join(slot, "pinbox/pinbox.lock.json"),
		`{"version":1,"platform":"linux/amd64","sets":[],"images":[]}`)
	write(t, filepath.Join(sets, "a.lock.json"), `{"version":2}`)
	write(t, filepath.Join(sets, "b.lock.json"), `{"version":1,"platform":"linux/amd64","sets":[],"images":[]}`)
	inStores, inSets, err := stores.Disk{Slots: []string{slot, t.TempDir()}, Sets: sets}.Locks()
	if len(inStores) != 1 || len(inSets) != 1 || err == nil || !strings.Contains(err.Error(), "a.lock.json") {
		t.Errorf("got %d locks of stores, %d in sets, %v, want 1, 1, and an error of a.lock.json",
			len(inStores), len(inSets), err)
	}
}

// The space is that of the main store and that of the staging folder.
func TestSpace(t *testing.T) {
	d := stores.Disk{Staging: t.TempDir()}
	store, staging, err := d.Space(t.TempDir())
	if err != nil || store.Total == 0 || staging.Total == 0 {
		t.Errorf("got %+v, %+v, %v, want the space of both", store, staging, err)
	}
	if _, _, err := d.Space("\x00"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no path: got %v, want %v", err, syscall.EINVAL)
	}
}

// A medium is read without mounting it.
func TestOpenMedium(t *testing.T) {
	file, content := filepath.Join(t.TempDir(), "medium.iso"), "the content of a store"
	if err := iso.Create(t.Context(), file, iso.MediumLabel, 0o644, time.Unix(0, 0), []iso.Addition{
		{Name: layout.MediumStore, Size: int64(len(content)), Content: strings.NewReader(content)},
	}, nil); err != nil {
		t.Fatal(err)
	}
	m, err := stores.OpenMedium(file)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	name := layout.MediumDir + "/" + layout.MediumStore
	offset, size, err := m.Extent(name)
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(file)
	if err != nil || string(image[offset:offset+size]) != content {
		t.Errorf("got %d bytes at %d, %v, want %q", size, offset, err, content)
	}
	if text, err := m.ReadText(name); err != nil || string(text) != content {
		t.Errorf("got %q, %v, want %q", text, err, content)
	}
	if _, _, err := m.Extent(name + "x"); err == nil {
		t.Error("another file: got no error, want that it is not on the medium")
	}
	text := filepath.Join(t.TempDir(), "text")
	write(t, text, content)
	if _, err := stores.OpenMedium(text); err == nil {
		t.Error("got no error, want that a text is no medium")
	}
}

// copyStore copies the folder of a store.
func copyStore(t *testing.T, store string) string {
	t.Helper()
	dir := t.TempDir()
	fixtures.Run(t, "cp", "-r", store+"/.", dir)
	return dir
}
