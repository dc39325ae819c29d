package builder_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/resolve"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ocMirrorData returns the path of output of a real oc-mirror, or of notes about it.
func ocMirrorData(t *testing.T, below string) string {
	t.Helper()
	path := filepath.Join(fixtures.Root(t), "../shared/data/oc-mirror", below)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no sample of oc-mirror: %v", err)
	}
	return path
}

// planOCMirror plans an appliance of the output of oc-mirror.
func planOCMirror(t *testing.T, m source.OCMirror) (pinset.Lock, []string, error) {
	t.Helper()
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &m}}
	return builder.Plan(t.Context(), o)
}

// expectation is an entry of expected.json.
type expectation struct {
	ID        string
	Kind      string
	Reference string   `json:"reference_in_input"`
	PullSpec  string   `json:"pull_spec"`
	In        []string `json:"in"`
}

// Images in archives of a real oc-mirror have their original names.
func TestRealOCMirror(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(ocMirrorData(t, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Images []expectation }
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	first := []string{
		"add-multi-oci-tag", "add-nested-tag", "add-nested-digest", "add-dlist-digest", "add-tag-and-digest",
		"add-rolling-old", "comp-cli", "comp-mco", "comp-cli-artifacts", "comp-cvo-1", "comp-etcd-1", "comp-pod-1",
		"release-4.99.1",
	}
	second := append([]string{"add-rolling-new", "add-new", "comp-cvo-2", "comp-etcd-2", "comp-pod-2", "release-4.99.2"},
		without(first, "add-rolling-old")...)
	moved := append([]string{"add-rolling-new"}, without(first, "add-rolling-old")...)
	for name, c := range map[string]struct {
		paths, want []string // IDs of the expectations
	}{
		"folder of an archive":    {[]string{"archive1"}, first},
		"file of an archive":      {[]string{"archive1/mirror_000001.tar"}, first},
		"archive in parts":        {[]string{"archive-chunks"}, moved},
		"without signatures":      {[]string{"archive-no-signatures"}, moved},
		"two archives":            {[]string{"archive1", "archive2"}, second},
		"two archives, reordered": {[]string{"archive2", "archive1"}, second},
		"operators": {
			[]string{"archive-operator"}, []string{"bundle-foo", "operand-foo", "operand-multi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var paths, want []string
			for _, p := range c.paths {
				paths = append(paths, ocMirrorData(t, p))
			}
			for _, e := range all.Images {
				if slices.Contains(c.want, e.ID) {
					want = append(want, e.PullSpec)
				}
			}
			if name == "operators" { // the catalog that oc-mirror has built
				want = append(want,
					"registry.example.com/redhat/example-operator-index@sha256:"+
						"a8151ed147ea73581d6c7233be53c4290eb5fb5e96b32e594e1ad502ab2e6ac2")
			}
			lock, warnings, err := planOCMirror(t, source.OCMirror{Paths: paths})
			if err != nil {
				t.Fatalf("got %v, want a lock", err)
			}
			var got []string
			for _, img := range lock.Images {
				got = append(got, img.Pin)
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("images (-want +got):\n%s\n%s", diff, strings.Join(warnings, "\n"))
			}
		})
	}
}

// without returns the list without one element.
func without(list []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == one })
}

// Errors about incomplete archives have the missing images, blobs or files.
func TestRefusedRealOCMirror(t *testing.T) {
	t.Parallel()
	isc := filepath.Join(t.TempDir(), "isc.yaml")
	if err := os.WriteFile(isc, []byte("apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\nmirror:\n"+
		"  additionalImages:\n  - name: registry.example.com/tools/rolling:latest\n"+
		"  - name: other.example.com/tools/rolling:latest\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	for _, part := range []string{"1", "3", "4"} {
		fixtures.Run(t, "cp", ocMirrorData(t, "archive-chunks/mirror_00000"+part+".tar"), copied)
	}
	cut := filepath.Join(t.TempDir(), "mirror_000001.tar")
	fixtures.Run(t, "cp", ocMirrorData(t, "archive1/mirror_000001.tar"), cut)
	fixtures.Run(t, "truncate", "--size=-300K", cut)
	for name, c := range map[string]struct {
		m     source.OCMirror
		want  error
		words []string
	}{
		"only the second archive": {source.OCMirror{Paths: []string{ocMirrorData(t, "archive2")}}, storage.ErrIncomplete, []string{
			"registry.example.com/tools/multi@sha256:efd0e4ac13a762131e5e7c292b9dc827e65cf7b3fc8e4be21d949ef42db2453f: some",
			"ocp-release@sha256:3169b08eac8090548efdc3e015af11b2c5479e22173a1181faade1ff151e3291: some",
			"ocp-v4.0-art-dev@sha256:2f868a79775f866acf498727917069005f674d79b03f49c8238638e587cd1139: some",
		}},
		"a failed run": {
			source.OCMirror{Paths: []string{ocMirrorData(t, "archive-aborted")}}, source.ErrOCMirror, []string{"isc_"},
		},
		"a part is missing": {
			source.OCMirror{Paths: []string{copied}}, source.ErrOCMirror, []string{"mirror_000002.tar"},
		},
		"the last part is missing": {
			source.OCMirror{Paths: []string{ocMirrorData(t, "archive-chunks/mirror_000001.tar")}}, source.ErrOCMirror,
			[]string{"isc_"},
		},
		"truncated": {source.OCMirror{Paths: []string{cut}}, storage.ErrLocal, []string{cut}},
		"the same path on two hosts": {
			source.OCMirror{Paths: []string{ocMirrorData(t, "archive1")}, Config: isc}, source.ErrCollision,
			[]string{"registry.example.com/tools/rolling:latest", "other.example.com/tools/rolling:latest"},
		},
		"a release without its manifests": {
			source.OCMirror{Paths: []string{ocMirrorData(t, "workspace/m2d-operator")},
				Config: ocMirrorData(t, "isc/isc1.yaml")}, source.ErrNotMirrored, []string{"hold-release"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := planOCMirror(t, c.m); !errors.Is(err, c.want) ||
				slices.ContainsFunc(c.words, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.words)
			}
		})
	}
}

// mirror makes a folder with the sample images as oc-mirror does, under names of other registries.
func mirror(t *testing.T, pins sample.Pins) sample.Mirror {
	t.Helper()
	m := sample.Mirror{Dir: t.TempDir()}
	for pin, stored := range map[string]string{
		pins.Mixed: "site/app:1.2", pins.Pause: "site/pause:3", pins.Docker: "deep/er/docker:sha256-" + digestOf(pins.Docker),
		pins.Index: "site/list:latest",
	} {
		if err := m.Add(t.Context(), pin, stored); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Write("isc_2026-11-21T02:04:52Z", sample.ImageSet("quay.example.com/site/app:1.2",
		"quay.example.com/site/pause:3", "registry.example.com/deep/er/docker@sha256:"+digestOf(pins.Docker),
		"quay.example.com/site/list:latest")); err != nil {
		t.Fatal(err)
	}
	return m
}

// digestOf returns the digest of a pin, in hexadecimal digits.
func digestOf(pin string) string { return pin[strings.LastIndex(pin, ":")+1:] }

// pack makes an archive of a mirror, without some of its files.
func pack(t *testing.T, m sample.Mirror, without ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mirror_000001.tar")
	args := []string{"--format=ustar", "--no-wildcards", "-C", m.Dir}
	for _, w := range without {
		args = append(args, "--exclude="+w)
	}
	names, err := os.ReadDir(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "-cf", file)
	for _, n := range names {
		args = append(args, n.Name())
	}
	fixtures.Run(t, "tar", args...)
	return file
}

// CRI-O lists the images of an archive under the names that the cluster uses, pinned, and runs them. No
// registry is needed, neither by the build nor by the node.
func TestOCMirrorOnANode(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCMirror{Paths: []string{pack(t, mirror(t, pins))}}}}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n := appliance.Boot(t, o, "quay.example.com/site/pause:3")
	n.Start()
	lock := appliance.Lock(t, o.Out)
	checkImages(t, n, lock)
	var got []string
	for _, img := range lock.Images {
		got = append(got, img.Pin+" "+strings.Join(img.Tags, " "))
	}
	want := []string{
		"quay.example.com/site/app@sha256:" + digestOf(pins.Mixed) + " quay.example.com/site/app:1.2",
		"quay.example.com/site/list@sha256:" + digestOf(pins.Index) + " quay.example.com/site/list:latest",
		"quay.example.com/site/pause@sha256:" + digestOf(pins.Pause) + " quay.example.com/site/pause:3",
		"registry.example.com/deep/er/docker@sha256:" + digestOf(pins.Docker) + " ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	id, _ := n.RunContainer("quay.example.com/site/app:1.2")
	if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
		t.Errorf("got exit code %d of the container, want 0", code)
	}
}

// A real CRI-O has the images of an appliance of a real archive.
func TestRealOCMirrorOnANode(t *testing.T) {
	t.Parallel()
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCMirror{
		Paths: []string{ocMirrorData(t, "archive2"), ocMirrorData(t, "archive1")}, Signatures: source.Signatures{
			Keys: []string{ocMirrorData(t, "isc/throwaway-signing-key.pub.asc")},
		},
	}}}
	n := appliance.Boot(t, o, "")
	n.Start()
	lock := appliance.Lock(t, o.Out)
	checkImages(t, n, lock)
	var sets []string
	for _, s := range lock.Sets {
		sets = append(sets, s.Name)
	}
	want := []string{"appliance-4.99.1-master", "appliance-4.99.1-worker", "appliance-4.99.2-master",
		"appliance-4.99.2-worker", "appliance-images"}
	if !slices.Equal(sets, want) {
		t.Errorf("got the sets %q, want %q", sets, want)
	}
}

// Blobs that an archive lacks are read from the store of an earlier appliance. The lock is that of the
// complete archive.
func TestEarlierStoreCompletesAnArchive(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	m := mirror(t, pins)
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCMirror{Paths: []string{m.Dir}}}}
	appliance.Build(t, o)
	first := appliance.Lock(t, o.Out)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	store := fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile))

	var missing []string // blobs of one image, and layers of the others
	for _, img := range first.Images {
		if strings.Contains(img.Pin, "site/app@") {
			missing = append(missing, sample.Blob(img.Manifest.String()), sample.Blob(img.Config.String()))
		}
		for _, l := range img.Layers[1:] {
			missing = append(missing, sample.Blob(l.Digest.String()))
		}
	}
	later := options(t, nil)
	archive := source.OCMirror{Paths: []string{pack(t, m, missing...)}}
	later.Appliance.Spec.Sources = []source.Entry{{Source: &archive}}
	if _, err := builder.Build(t.Context(), later); !errors.Is(err, storage.ErrIncomplete) {
		t.Fatalf("without the store: got %v, want %v", err, storage.ErrIncomplete)
	}
	archive.Stores = []string{store}
	appliance.Build(t, later)
	if diff := cmp.Diff(first, appliance.Lock(t, later.Out)); diff != "" {
		t.Errorf("lock (-first +later):\n%s", diff)
	}
}

// Images of a store that another program wrote are copied unchanged.
func TestContainersStorage(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	fixtures.Need(t, "skopeo")
	registry, pins := fixtures.Samples(t)
	root := filepath.Join(t.TempDir(), "graph")
	t.Cleanup(func() { fixtures.Unmount(t, filepath.Join(root, "overlay")) }) // skopeo leaves a mount
	for name, pin := range map[string]string{
		"quay.example.com/site/app:1.2": pins.Mixed, "quay.example.com/site/pause:3": pins.Pause,
		"localhost/list:1": pins.Index,
	} {
		fixtures.Run(t, "skopeo", "copy", "--quiet", "--src-tls-verify=false", "docker://"+pin,
			"containers-storage:[overlay@"+root+"+"+t.TempDir()+"]"+name)
	}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.ContainersStorage{Path: root}}}
	n := appliance.Boot(t, o, "quay.example.com/site/pause:3")
	n.Start()
	checkImages(t, n, appliance.Lock(t, o.Out))
	id, _ := n.RunContainer("quay.example.com/site/app:1.2")
	if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
		t.Errorf("got exit code %d of the container, want 0", code)
	}
	o.Appliance.Spec.Sources = []source.Entry{
		{Source: &source.ContainersStorage{Path: root, Images: []string{"quay.example.com/site/nothing:1"}}},
	}
	o.Out = filepath.Join(t.TempDir(), "out")
	if _, err := builder.Build(t.Context(), o); !errors.Is(err, source.ErrNoSuchImage) {
		t.Errorf("got %v, want %v", err, source.ErrNoSuchImage)
	}
}

func TestRefusedOCMirror(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	m := mirror(t, pins)
	other := mirror(t, pins) // another build of the same name
	if err := other.Add(t.Context(), pins.Other, "site/app:1.2"); err != nil {
		t.Fatal(err)
	}
	config := func(old, new string) string { return editedImageSet(t, old, new) }
	damaged := sample.Mirror{Dir: t.TempDir()}
	fixtures.Run(t, "cp", "-r", m.Dir+"/.", damaged.Dir)
	lock, _, err := planOCMirror(t, source.OCMirror{Paths: []string{m.Dir}})
	if err != nil {
		t.Fatal(err)
	}
	layer := lock.Images[0].Layers[0].Digest.String()
	fixtures.Run(t, "sh", "-c", "printf x | dd of="+filepath.Join(damaged.Dir,
		sample.Blob(layer))+" bs=1 seek=100 conv=notrunc")
	for name, c := range map[string]struct {
		sources []source.OCMirror
		want    error
		words   []string
	}{
		"a blob has another digest": {
			[]source.OCMirror{{Paths: []string{pack(t, damaged)}}}, storage.ErrDigest, []string{layer},
		},
		"an unknown field": {
			[]source.OCMirror{{Paths: []string{m.Dir}, Config: config("additionalImages", "additionalImage")}},
			source.ErrImageSetConfig, []string{"isc.yaml:4: field additionalImage not found"},
		},
		"version 1": {
			[]source.OCMirror{{Config: config("v2alpha1", "v1alpha2")}}, source.ErrImageSetConfig, []string{"v1alpha2"},
		},
		"only a configuration, with operators": {
			[]source.OCMirror{{Config: config("  additional", "  operators:\n  - catalog: "+
				"quay.example.com/catalog:v4.20\n  additional")}}, source.ErrOnlyOCMirror, []string{"mirror.operators"},
		},
		"an image is missing": {
			[]source.OCMirror{{Paths: []string{m.Dir}, Config: config("app:1.2", "app:1.3")}}, source.ErrNotMirrored,
			[]string{"quay.example.com/site/app:1.3"},
		},
		"a name for two images": {
			[]source.OCMirror{{Paths: []string{m.Dir}}, {Paths: []string{other.Dir}}}, resolve.ErrDuplicateName,
			[]string{"quay.example.com/site/app:1.2", digestOf(pins.Mixed), digestOf(pins.Other)},
		},
		"not an output of oc-mirror": {
			[]source.OCMirror{{Paths: []string{t.TempDir()}}}, source.ErrOCMirror, []string{"mirror_000001.tar"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := ocMirrorOptions(t, c.sources)
			if _, err := builder.Build(t.Context(), o); !errors.Is(err, c.want) ||
				slices.ContainsFunc(c.words, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.words)
			}
			if _, err := os.Stat(o.Out); err == nil {
				t.Errorf("got an output folder %s, want none", o.Out)
			}
		})
	}
}

// ocMirrorOptions returns the options of a build from outputs of oc-mirror.
func ocMirrorOptions(t *testing.T, sources []source.OCMirror) builder.Options {
	t.Helper()
	o := options(t, nil)
	o.Appliance.Spec.Sources = nil
	for _, m := range sources {
		o.Appliance.Spec.Sources = append(o.Appliance.Spec.Sources, source.Entry{Source: &m})
	}
	return o
}

// editedImageSet writes an ImageSetConfiguration in which one text is replaced.
func editedImageSet(t *testing.T, old, new string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "isc.yaml")
	config := string(sample.ImageSet("quay.example.com/site/app:1.2"))
	if err := os.WriteFile(file, []byte(strings.Replace(config, old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// The images of a configuration without an output of oc-mirror are resolved by registries.
func TestOnlyAnImageSet(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	file := filepath.Join(t.TempDir(), "isc.yaml")
	text := string(sample.ImageSet(pins.Mixed, pins.Pause)) + "  blockedImages:\n  - name: .*/pause@.*\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	lock, _, err := planOCMirror(t, source.OCMirror{Config: file})
	if err != nil || len(lock.Images) != 1 || lock.Images[0].Pin != pins.Mixed {
		t.Errorf("got %+v, %v; want %s", lock.Images, err, pins.Mixed)
	}
}

// An index needs only the image of the appliance's platform. oc-mirror can be configured to mirror only
// some platforms.
func TestSparseIndex(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	m := mirror(t, pins)
	var instances []string
	for _, platform := range []pinset.Platform{"linux/amd64", "linux/arm64"} {
		o := options(t, nil)
		o.Appliance.Spec.Platform = platform
		o.Appliance.Spec.Sources = []source.Entry{{Source: &source.Images{pins.Index}}}
		lock, _, err := builder.Plan(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		instances = append(instances, lock.Images[0].Manifest.String())
	}
	config := filepath.Join(t.TempDir(), "isc.yaml")
	if err := os.WriteFile(config, sample.ImageSet("quay.example.com/site/list:latest"), 0o644); err != nil {
		t.Fatal(err)
	}
	for platform, c := range map[pinset.Platform]struct {
		missing string
		want    error
	}{
		"linux/amd64": {instances[1], nil},
		"linux/arm64": {instances[1], storage.ErrIncomplete},
	} {
		t.Run(string(platform), func(t *testing.T) {
			o := options(t, nil)
			o.Appliance.Spec.Platform = platform
			o.Appliance.Spec.Sources = []source.Entry{
				{Source: &source.OCMirror{Paths: []string{pack(t, m, sample.Blob(c.missing))}, Config: config}},
			}
			lock, _, err := builder.Plan(t.Context(), o)
			if !errors.Is(err, c.want) || c.want == nil && (err != nil || lock.Images[0].Manifest.String() != instances[0]) {
				t.Errorf("got %+v, %v; want %s, %v", lock.Images, err, instances[0], c.want)
			}
			if c.want != nil && !strings.Contains(err.Error(), c.missing) {
				t.Errorf("got %v, want the missing blob %s in it", err, c.missing)
			}
		})
	}
}
