package volumes_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/volumes"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// id is the ID of a layer by its name, "" for no name.
func id(name string) string {
	if name == "" {
		return ""
	}
	return digest.FromString(name).Encoded()
}

// store writes the records of a store with an image of the topmost layer. parents are those of the layers.
func store(t *testing.T, pin, top string, parents map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var layers []layout.Layer
	for name, parent := range parents {
		sum := digest.FromString(name)
		layers = append(layers, layout.Layer{ID: id(name), Parent: id(parent), CompressedDigest: sum, UncompressedDigest: sum})
	}
	_, at, _ := strings.Cut(pin, "@")
	images := []layout.Image{{
		ID: id("image"), Digest: digest.Digest(at), Names: []string{pin}, TopLayer: id(top), Created: time.Unix(0, 0),
	}}
	for file, records := range map[string]any{layout.LayersFile: layers, layout.ImagesFile: images} {
		content, err := json.Marshal(records)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755),
				os.WriteFile(filepath.Join(dir, file), content, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An image is written only if the stores have all of it. Nothing of another one is written, and a record that refers
// to itself ends.
func TestImageThatNoStoreHasWhole(t *testing.T) {
	fixtures.NeedRoot(t)
	pin := "quay.io/site/app@" + digest.FromString("app").String()
	img, err := pinset.ParseImage(pin)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		pin, top string
		parents  map[string]string
		want     string
	}{
		"another image":      {"quay.io/site/other@" + digest.FromString("app").String(), "a", map[string]string{"a": ""}, pin + ": no store"},
		"no topmost layer":   {pin, "a", nil, "layer " + id("a") + ": no store"},
		"no lowest layer":    {pin, "b", map[string]string{"b": "a"}, "layer " + id("a") + ": no store"},
		"layers in a circle": {pin, "b", map[string]string{"b": "a", "a": "b"}, ": no store"},
	} {
		t.Run(name, func(t *testing.T) {
			graphRoot := t.TempDir()
			roots := []string{t.TempDir(), store(t, test.pin, test.top, test.parents)} // the first is a free slot
			err := volumes.Copy(t.Context(), graphRoot, roots, []pinset.Image{img})
			if !errors.Is(err, volumes.ErrNoImage) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %v with %q", err, volumes.ErrNoImage, test.want)
			}
			if content, err := os.ReadFile(filepath.Join(graphRoot, layout.LayersFile)); err == nil && strings.Contains(string(content), "id") {
				t.Errorf("got the layers %s, want none", content)
			}
		})
	}
}
