package builder_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
)

// dockerArchiveOf makes an archive of n images as `podman save -m` does. Here it has the blobs of an OCI
// layout, and a manifest.json.
func dockerArchiveOf(t *testing.T, n int) source.Entry {
	t.Helper()
	dir := manyImages(t, 0, n).Path
	read := func(name string, into any) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(content, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	blob := func(d v1.Hash) string { return "blobs/sha256/" + d.Hex }
	var index v1.IndexManifest
	var items []any
	read("index.json", &index)
	for _, d := range index.Manifests {
		var m v1.Manifest
		read(blob(d.Digest), &m)
		items = append(items, map[string]any{
			"Config": blob(m.Config.Digest), "RepoTags": []string{d.Annotations["org.opencontainers.image.ref.name"]},
			"Layers": []string{blob(m.Layers[0].Digest)},
		})
	}
	content, err := json.Marshal(items)
	if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "manifest.json"), content, 0o600)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "images.tar")
	fixtures.Run(t, "tar", "-C", dir, "-cf", file, "blobs", "manifest.json")
	return source.Entry{Source: &source.Archives{{Path: file}}}
}

// A bug was to read a Docker archive once for each image: 1,000 images took 50 s of CPU. The work is
// measured in allocations, as in TestWorkGrowsWithTheImages.
func TestWorkGrowsWithTheImagesOfADockerArchive(t *testing.T) {
	count := func(n int) uint64 {
		o := options(t, nil)
		o.Appliance.Spec.Sources = []source.Entry{dockerArchiveOf(t, n)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		planMany(t, o)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	count(10) // allocations that happen once
	few, some, many := count(20), count(60), count(180)
	if first, later := (some-few)/40, (many-some)/120; later > first*9/8 {
		t.Errorf("got %d allocations for each of the last 120 of 180 images, want at most 9/8 of %d, as for each of\n"+
			"the last 40 of 60", later, first)
	}
}
