package source_test

import (
	"archive/tar"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ocMirrorArchive has the configuration of a run and no image, as one of mirror to mirror.
func ocMirrorArchive(t *testing.T, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mirror_000001.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	content := sample.ImageSet(names...)
	header := &tar.Header{Name: "isc_2026-11-21T02:04:52Z", Mode: 0o644, Size: int64(len(content))}
	err = w.WriteHeader(header)
	if _, failed := w.Write(content); failed != nil {
		err = failed
	}
	if err := errors.Join(err, w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// open counts the open files of this process by a path.
func open(t *testing.T, path string) (count int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && name == path {
			count++
		}
	}
	return count
}

// Material is what all sources name together, each for its own set.
func TestRead(t *testing.T) {
	const pod = "kind: Pod\nspec: {containers: [{image: quay.io/a/pod:1}]}\n"
	const other = "kind: Thing\nspec: {side: quay.io/a/side:1}\n"
	set := list(t, "set.yaml", string(sample.Set("mine", "quay.io/a/pinned"+digest)))
	names, pods := list(t, "names.txt", "quay.io/a/list:1\n"), list(t, "pod.yaml", pod+"---\n"+other)
	archive := ocMirrorArchive(t, "quay.io/a/mirrored:1")
	m, err := source.Read(t.Context(), []source.Entry{
		{Source: &source.PinnedImageSets{set}},
		{Source: &source.Images{"quay.io/a/image:1", "quay.io/a/image:2"}, Set: "own", Pools: []string{"worker"}},
		{Source: &source.ImageLists{names}},
		{Source: &source.PinnedImageSets{set}}, // a file counts once
		{Source: &source.Manifests{Paths: []string{pods}}},
		{Source: &source.Release{Image: "quay.io/a/release:1"}},
		{Source: &source.Release{Image: "quay.io/a/release:2"}, Set: "ocp"},
		{Source: &source.OCMirror{Paths: []string{archive}}},
	}, source.Options{Appliance: "site", Platform: "linux/amd64"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range m.Named {
		for _, name := range n.Names {
			got = append(got, strings.Join([]string{n.Set, strings.Join(n.Pools, ","), name.String(), n.Origin}, " "))
		}
	}
	for _, r := range m.Releases {
		got = append(got, r.Set+" "+r.Image)
	}
	want := []string{
		"own worker quay.io/a/image:1 spec.sources[1].images[0]", "own worker quay.io/a/image:2 spec.sources[1].images[0]",
		"site-images  quay.io/a/list:1 " + names + ":1", "site-images  quay.io/a/pod:1 " + pods + ":2",
		"site-images  quay.io/a/mirrored:1 " + archive, "site quay.io/a/release:1", "ocp quay.io/a/release:2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if len(m.Sets) != 1 || len(m.Possible) != 1 || len(m.RegistryReasons) != 1 {
		t.Errorf("got %d sets, %d possible images and %q, want one of each", len(m.Sets), len(m.Possible), m.RegistryReasons)
	}
	if got := open(t, archive); got != 1 {
		t.Errorf("got %d open files of the archive, want one for as long as images are read", got)
	}
	if err := m.Close(); err != nil || open(t, archive) != 0 {
		t.Errorf("after Close: got %v and %d open files, want neither", err, open(t, archive))
	}
}

// An error closes what was opened before.
func TestReadCloses(t *testing.T) {
	archive := ocMirrorArchive(t, "quay.io/a/b:1")
	set := func() string { return list(t, "set.yaml", string(sample.Set("mine", "quay.io/a/pinned"+digest))) }
	for name, c := range map[string]struct {
		source source.Source
		want   error
	}{
		"a later source":   {&source.ImageLists{"/no/such"}, os.ErrNotExist},
		"the same source":  {&source.OCMirror{Paths: []string{archive}, Exclude: []string{"quay.io/x"}}, source.ErrExclude},
		"two sets of name": {&source.PinnedImageSets{set(), set()}, pinset.ErrDuplicateSet},
	} {
		t.Run(name, func(t *testing.T) {
			entries := []source.Entry{{Source: &source.OCMirror{Paths: []string{archive}}}, {Source: c.source}}
			_, err := source.Read(t.Context(), entries, source.Options{Appliance: "site", Platform: "linux/amd64"})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := open(t, archive); got != 0 {
				t.Errorf("got %d open files of the archive, want none", got)
			}
		})
	}
}
