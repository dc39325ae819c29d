package stores_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores"
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

// A layer is found in any store, with its own parent only, and if its pull was complete.
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
		Layers: []pinset.LockedLayer{{Digest: base, Size: 1}, {DiffID: top, Size: 2}, {DiffID: half, Digest: half, Size: 4}},
	}
	if lacks, fetch := layers.MissingLayers(img); len(lacks) != 1 || fetch != 4 {
		t.Errorf("lacks %v, %d bytes", lacks, fetch)
	}
	write(t, filepath.Join(root, "overlay-layers/layers.json"), `[{"id":`)
	if _, err := (stores.Disk{}).Layers(root); err == nil || !strings.Contains(err.Error(), "overlay-layers/layers.json") {
		t.Errorf("%v", err)
	}
}

// A lock that cannot be read does not hide the others.
func TestLocks(t *testing.T) {
	slot, sets := t.TempDir(), t.TempDir()
	write(t, filepath.Join(slot, "pinbox/pinbox.lock.json"),
		`{"version":1,"platform":"linux/amd64","sets":[],"images":[]}`)
	write(t, filepath.Join(sets, "a.lock.json"), `{"version":2}`)
	write(t, filepath.Join(sets, "b.lock.json"), `{"version":1,"platform":"linux/amd64","sets":[],"images":[]}`)
	in, beside, err := stores.Disk{Slots: []string{slot, t.TempDir()}, Sets: sets}.Locks()
	if len(in) != 1 || len(beside) != 1 || err == nil || !strings.Contains(err.Error(), "a.lock.json") {
		t.Errorf("%d, %d, %v", len(in), len(beside), err)
	}
}
