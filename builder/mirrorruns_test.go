package builder_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// runs are two of oc-mirror, in folders: in the second, site/app:1.2 has moved, and
// nothing that the first had is there but by name.
func runs(t *testing.T, pins sample.Pins) (first, second sample.Mirror) {
	t.Helper()
	first, second = mirror(t, pins), sample.Mirror{Dir: t.TempDir()}
	fixtures.Run(t, "cp", "-r", first.Dir+"/.", second.Dir)
	if err := second.Add(t.Context(), pins.Other, "site/app:1.2"); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mv", filepath.Join(second.Dir, "isc_2026-11-21T02:04:52Z"), filepath.Join(second.Dir, "isc_2026-11-22T02:04:52Z"))
	fixtures.Run(t, "sh", "-c", "cd "+first.Dir+" && find docker/registry/v2/blobs -type f | (cd "+second.Dir+" && xargs rm)")
	return first, second
}

// The newest run says what is wanted, in whatever order and form the runs are given:
// a bug was that folders came before all archives.
func TestNewestRunCounts(t *testing.T) {
	_, pins := fixtures.Samples(t)
	first, second := runs(t, pins)
	for _, paths := range [][]string{
		{first.Dir, second.Dir}, {second.Dir, first.Dir}, {second.Dir, pack(t, first)}, {pack(t, second), first.Dir}, {pack(t, second), pack(t, first)},
	} {
		lock, _, err := planOCMirror(t, builder.OCMirrorSource{Paths: paths})
		if err != nil {
			t.Errorf("%v: %v", paths, err)
		} else if img := lock.ByTag()["quay.example.com/site/app:1.2"]; img.Digest.Encoded() != digestOf(pins.Other) {
			t.Errorf("%v: the tag is %s", paths, img.Digest)
		}
	}
	one := t.TempDir()
	fixtures.Run(t, "cp", pack(t, first), filepath.Join(one, "mirror_000001.tar"))
	fixtures.Run(t, "cp", pack(t, second), filepath.Join(one, "mirror_000002.tar"))
	if _, _, err := planOCMirror(t, builder.OCMirrorSource{Paths: []string{one}}); !errors.Is(err, source.ErrOCMirror) || !strings.Contains(err.Error(), "a folder of its own") {
		t.Errorf("two runs in one folder: %v", err)
	}
}

// An archive of a run in which nothing was new has names alone. A bug was to take it
// for one of mirror to mirror, and to ask registries.
func TestArchiveWithNothingNew(t *testing.T) {
	registry, pins := fixtures.Samples(t)
	first, _ := runs(t, pins)
	empty := pack(t, first, "docker/registry/v2/blobs")
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := planOCMirror(t, builder.OCMirrorSource{Paths: []string{empty}}); !errors.Is(err, storage.ErrIncomplete) {
		t.Error(err)
	}
	o := options(t, nil)
	o.Appliance.Spec.Sources = []builder.Source{{OCMirror: builder.OCMirrorSource{Paths: []string{first.Dir}}}}
	appliance.Build(t, o)
	store := fixtures.Mount(t, filepath.Join(o.Out, builder.StoreFile))
	lock, _, err := planOCMirror(t, builder.OCMirrorSource{Paths: []string{empty}, Stores: []string{store}})
	if err != nil || len(lock.Images) != 4 {
		t.Errorf("%d images, %v", len(lock.Images), err)
	}
}

// A workspace of mirror to mirror has names; the images come from the mirror.
func TestWorkspaceWithoutImages(t *testing.T) {
	registry, pins := fixtures.Samples(t)
	m := sample.Mirror{Dir: t.TempDir()}
	tagged(t, pins.Mixed, registry.Host+"/sample/app:1.2")
	if err := errors.Join(
		m.Write("working-dir/isc_pinned_2026-11-21T02:04:52Z.yaml", sample.ImageSet(nowhere+"/sample/app:1.2", nowhere+"/sample/pause@sha256:"+digestOf(pins.Pause))),
		os.MkdirAll(filepath.Join(m.Dir, "working-dir/cluster-resources"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	o := options(t, nil)
	o.Appliance.Spec.Mirrors = slices.Concat(digestMirrors(t, nowhere, registry.Host, "NeverContactSource"), mirrors(t, "ImageTagMirrorSet", "imageTagMirrors", nowhere, registry.Host, "NeverContactSource"))
	for _, path := range []string{m.Dir, filepath.Join(m.Dir, "working-dir")} {
		o.Appliance.Spec.Sources = []builder.Source{{OCMirror: builder.OCMirrorSource{Paths: []string{path}}}}
		lock, _, err := builder.Plan(t.Context(), o)
		if err != nil || len(lock.Images) != 2 || lock.ByTag()[nowhere+"/sample/app:1.2"].Digest.Encoded() != digestOf(pins.Mixed) {
			t.Errorf("%s: %v, %+v", path, err, lock.Images)
		}
	}
}

// What has become of a store is found, and named.
func TestStoresThatAreWrong(t *testing.T) {
	registry, pins := fixtures.Samples(t)
	o := options(t, sample.Set("worker", pins.Docker))
	appliance.Build(t, o)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	mounted := fixtures.Mount(t, filepath.Join(o.Out, builder.StoreFile))
	lock := appliance.Lock(t, o.Out)
	for name, c := range map[string]struct {
		befall string // a command in the store
		want   error
	}{
		"whole":                      {"true", nil},
		"a file changed":             {"find overlay/*/diff -type f -size +1k | head -1 | xargs sh -c 'printf x | dd of=$0 bs=1 conv=notrunc status=none'", storage.ErrLocal},
		"a file became a fifo":       {"f=$(find overlay/*/diff -type f -size +1k | head -1) && rm $f && mkfifo $f", storage.ErrLocal},
		"a layer has no files":       {"rm -r overlay/*/diff", storage.ErrLocal},
		"a layer has no record":      {"rm overlay-layers/*.tar-split.gz", storage.ErrLocal},
		"a record is cut off":        {"truncate -s -20 overlay-layers/*.tar-split.gz", storage.ErrLocal},
		"a manifest changed":         {"for f in overlay-images/*/=*; do echo >>$f; done", storage.ErrDigest},
		"layers.json is not JSON":    {"echo nothing >overlay-layers/layers.json", storage.ErrLocal},
		"it is no store of overlays": {"mv overlay-images vfs-images", storage.ErrWrongKind},
	} {
		dir := t.TempDir()
		fixtures.Run(t, "sh", "-c", "cp -a "+mounted+"/. "+dir+" && chmod -R u+w "+dir+" && cd "+dir+" && "+c.befall)
		o := options(t, nil)
		o.Appliance.Spec.Sources = []builder.Source{{ContainersStorage: builder.ContainersStorage{Path: dir}}}
		_, err := builder.Build(t.Context(), o)
		if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), dir) || c.want == nil && err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.want == nil {
			if a, b := fixtures.Tree(t, filepath.Join(mounted, "overlay-layers")), fixtures.Tree(t, filepath.Join(fixtures.Mount(t, filepath.Join(o.Out, builder.StoreFile)), "overlay-layers")); !cmp.Equal(a, b) {
				t.Errorf("the layers' records differ: %s", cmp.Diff(a, b))
			}
			if later := appliance.Lock(t, o.Out); !slices.EqualFunc(lock.Images, later.Images, func(a, b pinset.LockedImage) bool {
				return a.Pin == b.Pin && a.Config == b.Config && slices.Equal(a.Layers, b.Layers)
			}) {
				t.Errorf("%s: %+v became %+v", name, lock.Images, later.Images)
			}
		}
	}
}

// Two archives of other image sets are no runs of one: what the older asked for and
// the newest does not is left out, and said.
func TestArchivesOfOtherImageSets(t *testing.T) {
	_, pins := fixtures.Samples(t)
	first := mirror(t, pins)
	other := sample.Mirror{Dir: t.TempDir()}
	if err := errors.Join(other.Add(t.Context(), pins.Other, "other/app:1"), other.Write("isc_2026-11-23T00:00:00Z", sample.ImageSet("quay.example.com/other/app:1"))); err != nil {
		t.Fatal(err)
	}
	lock, warnings, err := planOCMirror(t, builder.OCMirrorSource{Paths: []string{first.Dir, other.Dir}})
	if err != nil || len(lock.Images) != 1 {
		t.Errorf("%d images, %v", len(lock.Images), err)
	}
	if all := strings.Join(warnings, "\n"); !strings.Contains(all, first.Dir+" was asked for ") || !strings.Contains(all, "quay.example.com/site/app:1.2") || !strings.Contains(all, "make it another source") {
		t.Errorf("warnings %q", warnings)
	}
}
