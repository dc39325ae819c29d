package builder_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
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
	fixtures.Run(t, "mv", filepath.Join(second.Dir, "isc_2026-11-21T02:04:52Z"),
		filepath.Join(second.Dir, "isc_2026-11-22T02:04:52Z"))
	fixtures.Run(t, "sh", "-c",
		"cd "+first.Dir+" && find docker/registry/v2/blobs -type f | (cd "+second.Dir+" && xargs rm)")
	return first, second
}

// The newest run says what is wanted, in whatever order and form the runs are given:
// a bug was that folders came before all archives.
func TestNewestRunCounts(t *testing.T) {
	_, pins := fixtures.Samples(t)
	first, second := runs(t, pins)
	for _, paths := range [][]string{
		{first.Dir, second.Dir}, {second.Dir, first.Dir}, {second.Dir, pack(t, first)}, {pack(t, second), first.Dir},
		{pack(t, second), pack(t, first)},
	} {
		lock, _, err := planOCMirror(t, source.OCMirror{Paths: paths})
		if err != nil {
			t.Errorf("%v: %v", paths, err)
		} else if img := lock.ByTag()["quay.example.com/site/app:1.2"]; img.Digest.Encoded() != digestOf(pins.Other) {
			t.Errorf("%v: the tag is %s", paths, img.Digest)
		}
	}
}

// parts makes an archive of several parts, each of some of a mirror's files and folders.
func parts(t *testing.T, members ...[]string) string {
	t.Helper()
	dir := t.TempDir()
	for i, list := range members {
		fixtures.Run(t, "tar",
			append([]string{"--format=ustar", "-cf", filepath.Join(dir, fmt.Sprintf("mirror_%06d.tar", i+1))}, list...)...)
	}
	return dir
}

// A file that is larger than a part has a number of its own, and the part before it goes
// on: a bug was to want the configuration in the last part. Two runs in one folder are
// still told apart, by what they both have or by what follows the end of the first.
func TestPartsOfAnArchive(t *testing.T) {
	_, pins := fixtures.Samples(t)
	first, second := runs(t, pins)
	lock, _, err := planOCMirror(t, source.OCMirror{Paths: []string{first.Dir}})
	if err != nil {
		t.Fatal(err)
	}
	const links, all = "docker/registry/v2/repositories", "docker/registry/v2/blobs"
	large := sample.Blob(lock.Images[0].Layers[0].Digest.String())
	isc, later := "isc_2026-11-21T02:04:52Z", "isc_2026-11-22T02:04:52Z"
	from := func(m sample.Mirror, names ...string) []string { return append([]string{"-C", m.Dir}, names...) }
	rest := from(first, "--exclude="+large, all, isc)
	gap := parts(t, from(first, links), from(first, large), rest)
	fixtures.Run(t, "rm", filepath.Join(gap, "mirror_000002.tar"))
	for name, c := range map[string]struct {
		dir  string
		want error
		says string
	}{
		"a large file comes last": {parts(t, from(first, links), rest, from(first, large)), nil, ""},
		"and before the last":     {parts(t, from(first, links), from(first, large), rest), nil, ""},
		"two runs": {
			parts(t, from(first, links, all, isc), from(second, links, all, later)), source.ErrMixedRuns,
			"mirror_000002.tar both have docker/",
		},
		"two runs with nothing in common": {
			parts(t, from(first, links, all, isc), from(second, all, later)), source.ErrMixedRuns, "each have an isc_*",
		},
		"one that failed after another": {
			parts(t, from(first, links, all, isc), from(second, links)), source.ErrMixedRuns, "both have docker/",
		},
		"likewise, with nothing in common": {
			parts(t, from(first, links, isc), from(second, all)), source.ErrMixedRuns, "mirror_000001.tar, and ",
		},
		"one that failed": {
			parts(t, from(first, links), from(first, all)), source.ErrOCMirror, "mirror_000002.tar has no isc_*",
		},
		"a part between others is not there": {gap, source.ErrOCMirror, "mirror_000002.tar is missing"},
	} {
		got, _, err := planOCMirror(t, source.OCMirror{Paths: []string{c.dir}})
		if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		} else if c.want == nil && !cmp.Equal(lock, got) {
			t.Errorf("%s: %s", name, cmp.Diff(lock, got))
		}
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
	if _, _, err := planOCMirror(t, source.OCMirror{Paths: []string{empty}}); !errors.Is(err, storage.ErrIncomplete) {
		t.Error(err)
	}
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCMirror{Paths: []string{first.Dir}}}}
	appliance.Build(t, o)
	store := fixtures.Mount(t, filepath.Join(o.Out, artifact.StoreFile))
	lock, _, err := planOCMirror(t, source.OCMirror{Paths: []string{empty}, Stores: []string{store}})
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
		m.Write("working-dir/isc_pinned_2026-11-21T02:04:52Z.yaml",
			sample.ImageSet(nowhere+"/sample/app:1.2", nowhere+"/sample/pause@sha256:"+digestOf(pins.Pause))),
		os.MkdirAll(filepath.Join(m.Dir, "working-dir/cluster-resources"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	o := options(t, nil)
	o.Appliance.Spec.Mirrors = slices.Concat(digestMirrors(t, nowhere, registry.Host, "NeverContactSource"),
		mirrors(t, "ImageTagMirrorSet", "imageTagMirrors", nowhere, registry.Host, "NeverContactSource"))
	charts := sample.Mirror{Dir: t.TempDir()} // a bug was to leave out their images
	if err := errors.Join(
		charts.Write("working-dir/isc_pinned_2026-11-21T02:04:52Z.yaml", append(sample.ImageSet(nowhere+"/sample/app:1.2"),
			"  helm: {local: [{name: x}]}\n"...)),
		charts.Write("working-dir/dry-run/mapping.txt",
			fmt.Appendf(nil, "docker://%[1]s/sample/app:1.2=docker://%[2]s/m/sample/app:1.2\n"+
				"docker://%[1]s/sample/pause@sha256:%[3]s=docker://%[2]s/m/sample/pause:sha256-%[3]s\n", nowhere, registry.Host,
				digestOf(pins.Pause))),
	); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{m.Dir, filepath.Join(m.Dir, "working-dir"), charts.Dir} {
		o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCMirror{Paths: []string{path}}}}
		lock, _, err := builder.Plan(t.Context(), o)
		if err != nil || len(lock.Images) != 2 ||
			lock.ByTag()[nowhere+"/sample/app:1.2"].Digest.Encoded() != digestOf(pins.Mixed) {
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
	mounted := fixtures.Mount(t, filepath.Join(o.Out, artifact.StoreFile))
	lock := appliance.Lock(t, o.Out)
	for name, c := range map[string]struct {
		befall string // a command in the store
		want   error
	}{
		"whole": {"true", nil},
		"a file changed": {
			"find overlay/*/diff -type f -size +1k | head -1 | xargs sh -c 'printf x | dd of=$0 bs=1 conv=notrunc status=none'",
			storage.ErrLocal,
		},
		"a file became a fifo": {
			"f=$(find overlay/*/diff -type f -size +1k | head -1) && rm $f && mkfifo $f", storage.ErrLocal,
		},
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
		o.Appliance.Spec.Sources = []source.Entry{{Source: &source.ContainersStorage{Path: dir}}}
		_, err := builder.Build(t.Context(), o)
		if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), dir) || c.want == nil && err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.want == nil {
			if a, b := fixtures.Tree(t, filepath.Join(mounted, "overlay-layers")), fixtures.Tree(t,
				filepath.Join(fixtures.Mount(t, filepath.Join(o.Out, artifact.StoreFile)), "overlay-layers")); !cmp.Equal(a, b) {
				t.Errorf("the layers' records differ: %s", cmp.Diff(a, b))
			}
			if later := appliance.Lock(t, o.Out); !slices.EqualFunc(lock.Images, later.Images,
				func(a, b pinset.LockedImage) bool {
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
	if err := errors.Join(other.Add(t.Context(), pins.Other, "other/app:1"),
		other.Write("isc_2026-11-23T00:00:00Z", sample.ImageSet("quay.example.com/other/app:1"))); err != nil {
		t.Fatal(err)
	}
	lock, warnings, err := planOCMirror(t, source.OCMirror{Paths: []string{first.Dir, other.Dir}})
	if err != nil || len(lock.Images) != 1 {
		t.Errorf("%d images, %v", len(lock.Images), err)
	}
	if all := strings.Join(warnings, "\n"); !strings.Contains(all, first.Dir+" has ") ||
		!strings.Contains(all, "quay.example.com/site/app:1.2") || !strings.Contains(all, "make it another source") {
		t.Errorf("warnings %q", warnings)
	}
}
