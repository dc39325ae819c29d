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
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// runs returns the folders of two runs of oc-mirror. In the second, site/app:1.2 is another image, and the
// blobs of the first run are missing.
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

// The newest run determines the images, whatever the order and form of the runs. A bug was that folders
// came before all archives.
func TestNewestRunDeterminesTheImages(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	first, second := runs(t, pins)
	for name, paths := range map[string][]string{
		"two folders, the older first":    {first.Dir, second.Dir},
		"two folders, the newer first":    {second.Dir, first.Dir},
		"the newer folder and an archive": {second.Dir, pack(t, first)},
		"the newer archive and a folder":  {pack(t, second), first.Dir},
		"two archives, the newer first":   {pack(t, second), pack(t, first)},
	} {
		t.Run(name, func(t *testing.T) {
			lock, _, err := planOCMirror(t, source.OCMirror{Paths: paths})
			if err != nil {
				t.Fatal(err)
			}
			if img := lock.ByTag()["quay.example.com/site/app:1.2"]; img.Digest.Encoded() != digestOf(pins.Other) {
				t.Errorf("got the digest %s of the tag, want that of %s", img.Digest, pins.Other)
			}
		})
	}
}

// parts makes an archive of parts. members are arguments of tar: the files of each part.
func parts(t *testing.T, members ...[]string) string {
	t.Helper()
	dir := t.TempDir()
	for i, list := range members {
		fixtures.Run(t, "tar",
			append([]string{"--format=ustar", "-cf", filepath.Join(dir, fmt.Sprintf("mirror_%06d.tar", i+1))}, list...)...)
	}
	return dir
}

// A file that is larger than a part is a part of its own, and the part before it continues after it. A
// bug was that the configuration had to be in the last part. Two runs in one folder are detected by a
// file that both have, or by files after the configuration of the first.
func TestPartsOfAnArchive(t *testing.T) {
	t.Parallel()
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
		text string
	}{
		"a large file comes last":      {parts(t, from(first, links), rest, from(first, large)), nil, ""},
		"a large file before the last": {parts(t, from(first, links), from(first, large), rest), nil, ""},
		"two runs": {
			parts(t, from(first, links, all, isc), from(second, links, all, later)), source.ErrMixedRuns,
			"mirror_000002.tar both have docker/",
		},
		"two runs with nothing in common": {
			parts(t, from(first, links, all, isc), from(second, all, later)), source.ErrMixedRuns, "each have an isc_*",
		},
		"a failed run after another": {
			parts(t, from(first, links, all, isc), from(second, links)), source.ErrMixedRuns, "both have docker/",
		},
		"a failed run after another, with nothing in common": {
			parts(t, from(first, links, isc), from(second, all)), source.ErrMixedRuns, "mirror_000001.tar, and ",
		},
		"a failed run": {
			parts(t, from(first, links), from(first, all)), source.ErrOCMirror, "mirror_000002.tar has no isc_*",
		},
		"a part between others is missing": {gap, source.ErrOCMirror, "mirror_000002.tar is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := planOCMirror(t, source.OCMirror{Paths: []string{c.dir}})
			if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			} else if c.want == nil && !cmp.Equal(lock, got) {
				t.Errorf("lock (-want +got):\n%s", cmp.Diff(lock, got))
			}
		})
	}
}

// The archive of a run without new blobs has only names. A bug was to treat it as a workspace of mirror to
// mirror, and to send requests to registries.
func TestArchiveWithoutNewBlobs(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	first, _ := runs(t, pins)
	empty := pack(t, first, "docker/registry/v2/blobs")
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := planOCMirror(t, source.OCMirror{Paths: []string{empty}}); !errors.Is(err, storage.ErrIncomplete) {
		t.Errorf("got %v, want %v", err, storage.ErrIncomplete)
	}
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCMirror{Paths: []string{first.Dir}}}}
	appliance.Build(t, o)
	store := fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile))
	lock, _, err := planOCMirror(t, source.OCMirror{Paths: []string{empty}, Stores: []string{store}})
	if err != nil || len(lock.Images) != 4 {
		t.Errorf("got %d images, %v; want 4", len(lock.Images), err)
	}
}

// A workspace of mirror to mirror has only names. The images are fetched from the mirror.
func TestWorkspaceWithoutImages(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	m := sample.Mirror{Dir: t.TempDir()}
	tagged(t, pins.Mixed, registry.Host+"/sample/app:1.2")
	if err := errors.Join(
		m.Write("working-dir/isc_pinned_2026-11-21T02:04:52Z.yaml",
			sample.ImageSet(noRegistry+"/sample/app:1.2", noRegistry+"/sample/pause@sha256:"+digestOf(pins.Pause))),
		os.MkdirAll(filepath.Join(m.Dir, "working-dir/cluster-resources"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	o := options(t, nil)
	o.Appliance.Spec.Mirrors = slices.Concat(digestMirrors(t, noRegistry, registry.Host, "NeverContactSource"),
		mirrors(t, "ImageTagMirrorSet", "imageTagMirrors", noRegistry, registry.Host, "NeverContactSource"))
	charts := sample.Mirror{Dir: t.TempDir()} // a bug was that their images were missing
	if err := errors.Join(
		charts.Write("working-dir/isc_pinned_2026-11-21T02:04:52Z.yaml", append(sample.ImageSet(noRegistry+"/sample/app:1.2"),
			"  helm: {local: [{name: x}]}\n"...)),
		charts.Write("working-dir/dry-run/mapping.txt",
			fmt.Appendf(nil, "docker://%[1]s/sample/app:1.2=docker://%[2]s/m/sample/app:1.2\n"+
				"docker://%[1]s/sample/pause@sha256:%[3]s=docker://%[2]s/m/sample/pause:sha256-%[3]s\n", noRegistry, registry.Host,
				digestOf(pins.Pause))),
	); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"workspace": m.Dir, "working-dir": filepath.Join(m.Dir, "working-dir"), "charts": charts.Dir,
	} {
		t.Run(name, func(t *testing.T) {
			o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCMirror{Paths: []string{path}}}}
			lock, _, err := builder.Plan(t.Context(), o)
			if err != nil || len(lock.Images) != 2 ||
				lock.ByTag()[noRegistry+"/sample/app:1.2"].Digest.Encoded() != digestOf(pins.Mixed) {
				t.Errorf("got %+v, %v; want app:1.2 and pause", lock.Images, err)
			}
		})
	}
}

// An error about a damaged store has its path.
func TestDamagedStores(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o := options(t, sample.Set("worker", pins.Docker))
	appliance.Build(t, o)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	mounted := fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile))
	lock := appliance.Lock(t, o.Out)
	for name, c := range map[string]struct {
		change string // a command that runs in the store
		want   error
	}{
		"undamaged": {"true", nil},
		"a file changed": {
			"find overlay/*/diff -type f -size +1k | head -1 | xargs sh -c 'printf x | dd of=$0 bs=1 conv=notrunc status=none'",
			storage.ErrLocal,
		},
		"a file became a fifo": {
			"f=$(find overlay/*/diff -type f -size +1k | head -1) && rm $f && mkfifo $f", storage.ErrLocal,
		},
		"the files of a layer are missing": {"rm -r overlay/*/diff", storage.ErrLocal},
		"the record of a layer is missing": {"rm overlay-layers/*.tar-split.gz", storage.ErrLocal},
		"a record is cut off":              {"truncate -s -20 overlay-layers/*.tar-split.gz", storage.ErrLocal},
		"a manifest changed":               {"for f in overlay-images/*/=*; do echo >>$f; done", storage.ErrDigest},
		"layers.json is not JSON":          {"echo nothing >overlay-layers/layers.json", storage.ErrLocal},
		"not a store of overlays":          {"mv overlay-images vfs-images", storage.ErrWrongKind},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fixtures.Run(t, "sh", "-c", "cp -a "+mounted+"/. "+dir+" && chmod -R u+w "+dir+" && cd "+dir+" && "+c.change)
			o := options(t, nil)
			o.Appliance.Spec.Sources = []source.Entry{{Source: &source.ContainersStorage{Path: dir}}}
			_, err := builder.Build(t.Context(), o)
			if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), dir) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v with %s", err, c.want, dir)
				return
			}
			if c.want == nil {
				if a, b := fixtures.Tree(t, filepath.Join(mounted, "overlay-layers")), fixtures.Tree(t,
					filepath.Join(fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile)), "overlay-layers")); !cmp.Equal(a, b) {
					t.Errorf("records of layers (-want +got):\n%s", cmp.Diff(a, b))
				}
				if later := appliance.Lock(t, o.Out); !slices.EqualFunc(lock.Images, later.Images,
					func(a, b pinset.LockedImage) bool {
						return a.Pin == b.Pin && a.Config == b.Config && cmp.Equal(a.Layers, b.Layers)
					}) {
					t.Errorf("got the images %+v, want %+v", later.Images, lock.Images)
				}
			}
		})
	}
}

// Images that only the older of two archives of different image sets has are left out, and a warning
// lists them.
func TestArchivesOfOtherImageSets(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	first := mirror(t, pins)
	other := sample.Mirror{Dir: t.TempDir()}
	if err := errors.Join(other.Add(t.Context(), pins.Other, "other/app:1"),
		other.Write("isc_2026-11-23T00:00:00Z", sample.ImageSet("quay.example.com/other/app:1"))); err != nil {
		t.Fatal(err)
	}
	lock, warnings, err := planOCMirror(t, source.OCMirror{Paths: []string{first.Dir, other.Dir}})
	if err != nil || len(lock.Images) != 1 {
		t.Errorf("got %d images, %v; want 1", len(lock.Images), err)
	}
	if all := strings.Join(warnings, "\n"); !strings.Contains(all, first.Dir+" has ") ||
		!strings.Contains(all, "quay.example.com/site/app:1.2") || !strings.Contains(all, "make it another source") {
		t.Errorf("got the warnings %q, want one about %s with its images", warnings, first.Dir)
	}
}
