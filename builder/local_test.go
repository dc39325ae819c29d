package builder_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/resolve"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ociLayout makes an OCI layout with skopeo. The images are pins by their names in the layout.
func ociLayout(t *testing.T, images map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, pin := range images {
		fixtures.Run(t, "skopeo", "copy", "--quiet", "--all", "--src-tls-verify=false", "docker://"+pin, "oci:"+dir+":"+name)
	}
	return dir
}

// manifest returns the digest of an image in a layout, in hexadecimal digits.
func manifest(t *testing.T, dir, name string) string {
	t.Helper()
	return fmt.Sprintf("%x", sha256.Sum256([]byte(fixtures.Run(t, "skopeo", "inspect", "--raw", "oci:"+dir+":"+name))))
}

// namedBySHA512 changes the manifest of an image in a layout: it names the layers by their SHA-512.
func namedBySHA512(t *testing.T, dir, name string) {
	t.Helper()
	blobs := filepath.Join(dir, "blobs")
	content := []byte(fixtures.Run(t, "skopeo", "inspect", "--raw", "oci:"+dir+":"+name))
	old := digest.FromBytes(content)
	var m imgspecv1.Manifest
	if err := errors.Join(json.Unmarshal(content, &m), os.MkdirAll(filepath.Join(blobs, "sha512"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for i, l := range m.Layers {
		layer, err := os.ReadFile(filepath.Join(blobs, "sha256", l.Digest.Encoded()))
		if err != nil {
			t.Fatal(err)
		}
		m.Layers[i].Digest = digest.SHA512.FromBytes(layer)
		if err := os.WriteFile(filepath.Join(blobs, "sha512", m.Layers[i].Digest.Encoded()), layer, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	changed, err := json.Marshal(m)
	index := filepath.Join(dir, "index.json")
	list, readErr := os.ReadFile(index)
	list = bytes.ReplaceAll(list, []byte(old), []byte(digest.FromBytes(changed)))
	size := func(content []byte) []byte { return fmt.Appendf(nil, `"size":%d`, len(content)) }
	list = bytes.ReplaceAll(list, size(content), size(changed))
	if err := errors.Join(err, readErr, os.WriteFile(index, list, 0o644),
		os.WriteFile(filepath.Join(blobs, "sha256", digest.FromBytes(changed).Encoded()), changed, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Images of an OCI layout run on a node under their own names, also if the layers are named by SHA-512: a bug was to
// refuse those. The build needs no registry.
func TestOCILayout(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o, apps := options(t, nil), ociLayout(t, map[string]string{
		"quay.example.com/site/app:1.2": pins.Mixed, "quay.example.com/site/list:1": pins.Index,
	})
	namedBySHA512(t, apps, "quay.example.com/site/app:1.2")
	o.Appliance.Spec.Sources = []source.Entry{
		{Source: &source.OCI{{Path: apps}}},
		{Source: &source.OCI{{Path: ociLayout(t, map[string]string{"": pins.Pause}), Name: "quay.example.com/site/pause:3"}}},
	}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n := appliance.Boot(t, o, "quay.example.com/site/pause:3")
	n.Start()
	lock := appliance.Lock(t, o.Out)
	checkImages(t, n, lock)
	if want := "quay.example.com/site/app@sha256:" + manifest(t, apps,
		"quay.example.com/site/app:1.2"); !slices.ContainsFunc(lock.Images, func(img pinset.LockedImage) bool {
		return img.Pin == want
	}) {
		t.Errorf("got the images %+v, want %s too", lock.Images, want)
	}
	id, _ := n.RunContainer("quay.example.com/site/app:1.2")
	if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
		t.Errorf("got exit code %d of the container, want 0", code)
	}
}

// Missing blobs of a layout are not ErrIncomplete, whose hint asks for earlier archives of oc-mirror.
func TestRefusedLayouts(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	const app = "quay.example.com/site/app:1.2"
	named := map[string]string{app: pins.Mixed}
	for name, c := range map[string]struct {
		images map[string]string
		name   string
		change func(dir string)
		want   error
	}{
		"no index": {
			named, "", func(dir string) { fixtures.Run(t, "rm", filepath.Join(dir, "index.json")) }, storage.ErrLocal,
		},
		"no manifest": {
			named, "", func(dir string) { fixtures.Run(t, "rm", filepath.Join(dir, "blobs/sha256", manifest(t, dir, app))) },
			storage.ErrLocal,
		},
		"no layers": {named, "", func(dir string) {
			fixtures.Run(t, "find", filepath.Join(dir, "blobs"), "-type", "f", "-size", "+2k", "-delete")
		}, storage.ErrLocal},
		"another manifest": {named, "", func(dir string) {
			fixtures.Run(t, "sh", "-c", "echo >>"+filepath.Join(dir, "blobs/sha256", manifest(t, dir, app)))
		}, storage.ErrDigest},
		"no image": {
			nil, "", func(dir string) {
				_ = os.WriteFile(filepath.Join(dir, "index.json"), []byte("{}"), 0o644)
			}, source.ErrEmptyList,
		},
		"no name":    {map[string]string{"": pins.Mixed}, "", nil, source.ErrNoFullName},
		"only a tag": {map[string]string{"1.2": pins.Mixed}, "", nil, source.ErrNoFullName},
		"one name for two images": {
			map[string]string{"a": pins.Mixed, "b": pins.Pause}, "quay.example.com/x:1", nil, source.ErrNoFullName,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ociLayout(t, c.images)
			if c.change != nil {
				c.change(dir)
			}
			o := options(t, nil)
			o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCI{{Path: dir, Name: c.name}}}}
			if _, err := builder.Build(t.Context(), o); !errors.Is(err, c.want) || errors.Is(err, storage.ErrIncomplete) ||
				!strings.Contains(err.Error(), filepath.Base(dir)) && !strings.Contains(err.Error(), "quay.example.com/site/app") {
				t.Errorf("got %v, want %v with the name of the layout or the image, but not ErrIncomplete", err, c.want)
			}
		})
	}
}

// archive makes an archive of one image with skopeo. compress is a command that compresses it.
func archive(t *testing.T, format, name, pin string, compress ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "images.tar")
	fixtures.Run(t, "skopeo", "copy", "--quiet", "--src-tls-verify=false", "docker://"+pin, format+":"+file+":"+name)
	if len(compress) > 0 {
		fixtures.Run(t, "sh", "-c", strings.Join(compress, " ")+" <"+file+" >"+file+".packed")
		return file + ".packed"
	}
	return file
}

func TestArchives(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.Archives{
		{Path: archive(t, "oci-archive", "quay.example.com/site/app:1.2", pins.Mixed)},
		{Path: archive(t, "oci-archive", "", pins.Pause, "gzip"), Name: "quay.example.com/site/pause:3"},
		{Path: archive(t, "docker-archive", "quay.example.com/site/docker:1", pins.Docker)},
		{Path: archive(t, "docker-archive", "quay.example.com/site/other:1", pins.Index, "zstd", "-q")},
	}}}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n := appliance.Boot(t, o, "quay.example.com/site/pause:3")
	n.Start()
	lock := appliance.Lock(t, o.Out)
	checkImages(t, n, lock)
	if len(lock.Images) != 4 {
		t.Errorf("got %d images, want 4", len(lock.Images))
	}
	id, _ := n.RunContainer("quay.example.com/site/app:1.2")
	if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
		t.Errorf("got exit code %d of the container, want 0", code)
	}
	if entries, err := os.ReadDir(filepath.Dir(o.Out)); err != nil || len(entries) != 2 { // the output and the sets
		t.Errorf("got %v, %v beside the output, want only the sets", entries, err)
	}
}

func TestRefusedArchives(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	const app = "quay.example.com/site/app:1.2"
	cut := func(format string) func(file string) {
		return func(file string) { fixtures.Run(t, "truncate", "--size=-"+format, file) }
	}
	for name, c := range map[string]struct {
		format string
		change func(file string)
		want   error
	}{
		"OCI, cut off":    {"oci-archive", cut("20K"), storage.ErrLocal},
		"Docker, cut off": {"docker-archive", cut("20K"), storage.ErrLocal},
		"not an archive": {
			"oci-archive", func(file string) { fixtures.Run(t, "sh", "-c", "echo nothing >"+file) }, storage.ErrWrongKind,
		},
		"empty": {
			"oci-archive", func(file string) { fixtures.Run(t, "truncate", "--size=0", file) }, storage.ErrWrongKind,
		},
		// GNU tar's own --delete leaves some archives broken.
		"without its index": {"oci-archive", func(file string) {
			fixtures.Run(t, "sh", "-c",
				"d=$(mktemp -d) && tar -xf "+file+" -C $d && rm $d/index.json $d/oci-layout && "+
					"tar -cf "+file+" -C $d . && rm -r $d")
		}, storage.ErrWrongKind},
		"a blob changed": {"oci-archive", func(file string) {
			fixtures.Run(t, "sh", "-c", "d=$(mktemp -d) && tar -xf "+file+" -C $d && for b in $d/blobs/sha256/*; do printf "+
				"'\\n' >>$b; done && tar -cf "+file+" -C $d . && rm -r $d")
		}, storage.ErrDigest},
	} {
		t.Run(name, func(t *testing.T) {
			file := archive(t, c.format, app, pins.Docker)
			c.change(file)
			o := options(t, nil)
			o.Appliance.Spec.Sources = []source.Entry{{Source: &source.Archives{{Path: file}}}}
			if _, err := builder.Build(t.Context(), o); !errors.Is(err, c.want) || !strings.Contains(err.Error(), file) &&
				!strings.Contains(err.Error(), "quay.example.com/site/app") {
				t.Errorf("got %v, want %v with the name of the archive or the image", err, c.want)
			}
		})
	}
}

// Tags of local inputs are resolved to the digests in the lock, as tags of registries are. A bug was that
// the current digest was used. The order of the inputs and their kinds do not matter.
func TestLockHoldsLocalTags(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	fixtures.Need(t, "skopeo")
	_, pins := fixtures.Samples(t)
	const name = "quay.example.com/site/app:1"
	root := filepath.Join(t.TempDir(), "graph")
	t.Cleanup(func() { fixtures.Unmount(t, filepath.Join(root, "overlay")) }) // skopeo leaves a mount
	plan := func(lock pinset.Lock, sources ...source.Entry) (pinset.Image, pinset.Lock, error) {
		made, err := planWith(t, lock, sources...)
		return made.ByTag()[name], made, err
	}
	// an OCI layout: skopeo does not change its digest
	elsewhere := source.Entry{Source: &source.OCI{{Path: ociLayout(t, map[string]string{name: pins.Other})}}}
	for kind, from := range localSources(t, name, root) {
		t.Run(kind, func(t *testing.T) {
			old := from(pins.Other)
			first, lock, err := plan(pinset.Lock{}, old)
			if err != nil {
				t.Fatal(err)
			}
			moved := from(pins.Mixed)
			second, _, err := plan(pinset.Lock{}, moved)
			if err != nil || first == second {
				t.Errorf("without a lock: got %s, %v; want another image than %s", second, err, first)
			}
			for _, both := range [][]source.Entry{{moved, old}, {old, moved}, {moved, elsewhere}, {elsewhere, moved}} {
				if now, _, err := plan(lock, both...); err != nil || now != first {
					t.Errorf("with a lock: got %s, %v; want %s", now, err, first)
				}
			}
			now, _, err := plan(lock, moved)
			if strings.HasPrefix(kind, "a store") {
				if err != nil || now != first {
					t.Errorf("with a lock: got %s, %v; want %s", now, err, first)
				}
			} else if !errors.Is(err, resolve.ErrTagChanged) || !strings.Contains(err.Error(), first.Digest.String()) ||
				!strings.Contains(err.Error(), second.Digest.String()) {
				t.Errorf("without the locked image: got %v, want %v with %s and %s",
					err, resolve.ErrTagChanged, first.Digest, second.Digest)
			}
		})
	}
}

// localSources are functions that make a source of an image in a registry, which names it with a tag, by
// the kinds of sources. root is the graph root of the stores.
func localSources(t *testing.T, name, root string) map[string]func(pin string) source.Entry {
	return map[string]func(pin string) source.Entry{
		"an OCI layout": func(pin string) source.Entry {
			return source.Entry{Source: &source.OCI{{Path: ociLayout(t, map[string]string{name: pin})}}}
		},
		"an archive": func(pin string) source.Entry {
			file := filepath.Join(t.TempDir(), "app.tar")
			fixtures.Run(t, "skopeo", "copy", "--quiet", "--src-tls-verify=false", "docker://"+pin, "oci-archive:"+file+":"+name)
			return source.Entry{Source: &source.Archives{{Path: file}}}
		},
		"oc-mirror": func(pin string) source.Entry {
			m := sample.Mirror{Dir: t.TempDir()}
			if err := errors.Join(m.Add(t.Context(), pin, "site/app:1"),
				m.Write("isc_2026-11-21T02:04:52Z", sample.ImageSet(name))); err != nil {
				t.Fatal(err)
			}
			return source.Entry{Source: &source.OCMirror{Paths: []string{m.Dir}}}
		},
		"a store, which has both images": func(pin string) source.Entry {
			fixtures.Run(t, "skopeo", "copy", "--quiet", "--src-tls-verify=false", "docker://"+pin,
				"containers-storage:[overlay@"+root+"+"+t.TempDir()+"]"+name)
			return source.Entry{Source: &source.ContainersStorage{Path: root}}
		},
	}
}

// planWith plans an appliance of these sources with a lock.
func planWith(t *testing.T, lock pinset.Lock, sources ...source.Entry) (pinset.Lock, error) {
	t.Helper()
	o := options(t, nil)
	o.Appliance.Spec.Sources, o.Lock = sources, lock
	made, _, err := builder.Plan(t.Context(), o)
	return made, err
}

// So are tags of releases in the output of oc-mirror.
func TestLockHoldsReleaseTags(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	const held = "working-dir/hold-release/"
	m := sample.Mirror{Dir: t.TempDir()}
	if err := errors.Join(
		m.Add(t.Context(), pins.Other, "openshift/release-images:4.99.1-x86_64"),
		m.Write("isc_2026-11-21T02:04:52Z", append(sample.ImageSet(), "  platform: {channels: [{name: stable-4.99}]}\n"...)),
		m.Write(held+"ocp-release/4.99.1-x86_64/release-manifests/image-references", []byte("{}")),
		m.Write(held+"cincinnati-graph-data/x.json", []byte(`{"nodes":[{"payload":"`+pins.Other+`"}]}`)),
	); err != nil {
		t.Fatal(err)
	}
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCMirror{Paths: []string{m.Dir}}}}
	repository, _, _ := strings.Cut(pins.Other, "@")
	o.Lock.Images = []pinset.LockedImage{
		{Pin: repository + "@sha256:" + digestOf(pins.Mixed), Tags: []string{repository + ":4.99.1-x86_64"}},
	}
	if _, _, err := builder.Plan(t.Context(), o); !errors.Is(err, resolve.ErrTagChanged) ||
		!strings.Contains(err.Error(), digestOf(pins.Mixed)) || !strings.Contains(err.Error(), digestOf(pins.Other)) {
		t.Errorf("got %v, want %v with both digests", err, resolve.ErrTagChanged)
	}
}
